// How the job stands: best result, trials by state, what was spent of what may be spent.

import { badge, el, fill } from "../dom.js";
import { DASH, duration, moment, number } from "../format.js";
import { budget } from "../space.js";

const STATES = ["completed", "running", "pruned", "infeasible", "failed", "cancelled", "paused", "queued"];
const ENDED = ["completed", "pruned", "infeasible", "failed", "cancelled"];

export function renderSummary(element, data, now = Date.now() / 1000) {
  const { job } = data;
  fill(
    element,
    bestTile(data),
    trialsTile(job),
    spentTile(job, budget(data.space), now),
    timeTile(job, budget(data.space), now),
  );
}

function tile(title, ...children) {
  return el("div", { class: "tile" }, el("h3", {}, title), ...children);
}

function bestTile(data) {
  const { job } = data;
  const { metric, direction } = job.objective;
  const about = el("p", { class: "quiet-text" }, `${direction} ${metric}`);
  if (job.best_trial === null) {
    const none = data.trials.size ? "No trial has completed within the constraints yet." : "No trial has started yet.";
    return tile("Best", el("p", {}, none), about);
  }
  return tile(
    "Best",
    el("p", { class: "big" }, number(job.best_value), el("small", {}, ` trial ${job.best_trial}`)),
    el("p", { class: "quiet-text" }, againstDefault(data)),
    about,
    front(data),
  );
}

/** With several objectives, the trials that nobody beats in everything; the best is their compromise. */
function front({ job, trials }) {
  if (!job.front?.length) return null;
  const shown = (which) => job.objectives.map((one) => number(trials.get(which)?.values?.[one.metric])).join(" / ");
  const rows = job.front.map((which) => el("li", {}, `trial ${which}: ${shown(which)}`));
  const goals = job.objectives.map((one) => `${one.direction} ${one.metric}`).join(", ");
  return el("div", {}, el("p", { class: "quiet-text" }, `front of ${job.front.length} (${goals})`), el("ul", {}, ...rows));
}

function againstDefault({ job, trials }) {
  if (trials.get(job.best_trial)?.source === "default") return "it is the default configuration";
  if (job.default_value === null) return "the default configuration has not completed";
  const gain = (job.objective.direction === "minimize" ? -1 : 1) * (job.best_value - job.default_value);
  return `default ${number(job.default_value)}, ${gain >= 0 ? "better" : "worse"} by ${number(Math.abs(gain), 3)}`;
}

function trialsTile(job) {
  const count = (states) => states.reduce((sum, state) => sum + (job.trials[state] ?? 0), 0);
  const whole = Math.max(job.budget_trials, count(STATES), 1);
  const bar = el("div", {
    class: "stack",
    role: "img",
    "aria-label": `${count(ENDED)} of ${job.budget_trials} trials ended`,
  });
  for (const state of STATES) {
    const share = job.trials[state] ?? 0;
    if (!share) continue;
    const part = el("span", { class: `fill-${state}`, title: `${share} ${state}` });
    part.style.width = `${(100 * share) / whole}%`;
    bar.append(part);
  }
  const words = STATES.filter((state) => job.trials[state])
    .map((state) => `${job.trials[state]} ${state}`)
    .join(", ");
  return tile(
    "Trials",
    el("p", { class: "big" }, String(count(ENDED)), el("small", {}, ` of ${job.budget_trials}`)),
    bar,
    el("p", { class: "quiet-text" }, words || "none yet"),
  );
}

function meter(part, whole, label) {
  const share = Math.max(0, Math.min(1, part / whole));
  const inside = el("span", { class: share >= 1 ? "fill-failed" : "fill-running" });
  inside.style.width = `${100 * share}%`;
  return el("div", { class: "stack", role: "img", "aria-label": label }, inside);
}

function spentTile(job, { gpuHours }) {
  const steps = `at most ${job.steps} steps a trial, ${job.parallel} at a time`;
  if (gpuHours !== null) {
    return tile(
      "GPU-hours",
      el("p", { class: "big" }, number(job.cost_gpu_hours, 3), el("small", {}, ` of ${number(gpuHours)}`)),
      meter(job.cost_gpu_hours, gpuHours, `${number(job.cost_gpu_hours, 3)} of ${number(gpuHours)} GPU-hours`),
      el("p", { class: "quiet-text" }, steps),
    );
  }
  const gpu = job.cost_gpu_hours > 0 ? `${number(job.cost_gpu_hours, 3)} GPU-hours; ` : "";
  return tile(
    "Trial time",
    el("p", { class: "big" }, duration(job.cost_s)),
    el("p", { class: "quiet-text" }, `${gpu}${steps}`),
  );
}

function timeTile(job, { wallClock }, now) {
  const spent = job.started_at === null ? null : (job.ended_at ?? now) - job.started_at;
  const since = job.started_at === null ? `submitted ${moment(job.created_at)}` : `started ${moment(job.started_at)}`;
  const big = el("p", { class: "big" }, spent === null ? DASH : duration(spent));
  if (wallClock === null) return tile("Wall clock", big, el("p", { class: "quiet-text" }, since));
  big.append(el("small", {}, ` of ${duration(wallClock)}`));
  return tile(
    "Wall clock",
    big,
    meter(spent ?? 0, wallClock, `${duration(spent)} of ${duration(wallClock)}`),
    el("p", { class: "quiet-text" }, since),
  );
}

/** The job's name, state and description, and why it failed. */
export function renderHead(element, data) {
  const { job } = data;
  fill(
    element,
    el("h1", {}, job.id, " ", badge(job.state)),
    job.description ? el("p", { class: "description" }, job.description) : null,
    job.error ? el("p", { class: "problem" }, job.error.message, job.error.hint ? ` ${job.error.hint}` : "") : null,
  );
}
