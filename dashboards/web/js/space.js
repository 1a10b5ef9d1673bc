// What the page needs to know from a job's space file: limits of KL, rungs, budget, the axes of the search.

import { parseDuration } from "./format.js";

export const KL = "kl/actor_ref";
const BOUND = /^\s*(\S+)\s*(<=|<|>=|>)\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s*$/i;

/** Options of the first pruner of this name, or null. */
export function pruner(space, name) {
  for (const entry of space?.prune ?? []) {
    if (entry === name) return {};
    if (entry && typeof entry === "object" && entry[name] !== undefined) return entry[name] ?? {};
  }
  return null;
}

/** Horizontal lines of the KL plot: `{text, value, kind}` from the constraints and the ceiling. */
export function klLimits(space) {
  const found = [];
  for (const constraint of space?.constraints ?? []) {
    const [, metric, sign, bound] = BOUND.exec(String(constraint)) ?? [];
    if (metric === KL && sign.startsWith("<")) {
      found.push({ text: `constraint ${sign} ${bound}`, value: Number(bound), kind: "constraint" });
    }
  }
  const ceiling = pruner(space, "kl_ceiling");
  if (Number.isFinite(ceiling?.above) && (ceiling.metric ?? KL) === KL) {
    found.push({ text: `kl_ceiling ${ceiling.above}`, value: ceiling.above, kind: "ceiling" });
  }
  return found;
}

/** The steps at which `asha` compares trials, below the full length. */
export function rungs(space, steps) {
  const asha = pruner(space, "asha");
  if (!asha || !(asha.min_steps > 0)) return [];
  const factor = asha.reduction_factor > 1 ? asha.reduction_factor : 3;
  const found = [];
  for (let step = asha.min_steps; Math.round(step) < steps; step *= factor) found.push(Math.round(step));
  return found;
}

/** How much may be spent. */
export function budget(space) {
  const written = space?.budget ?? {};
  return { gpuHours: written.gpu_hours ?? null, wallClock: parseDuration(written.wall_clock) };
}

/** Whether a parameter is searched on a logarithmic scale; its path may be written short in the space. */
export function isLog(space, path) {
  for (const [name, domain] of Object.entries(space?.search ?? {})) {
    if (path === name || path.endsWith(`.${name}`)) return domain?.log === true;
  }
  return false;
}

/** What the search may choose from: `{name, options}` of a choice, `{name, low, high, whole}` of a range. */
export function domains(space) {
  return Object.entries(space?.search ?? {}).map(([name, domain]) => {
    if (Array.isArray(domain?.choice)) return { name, options: domain.choice };
    const whole = Array.isArray(domain?.int);
    const [low, high] = (whole ? domain.int : domain?.float) ?? [];
    return { name, low, high, whole };
  });
}
