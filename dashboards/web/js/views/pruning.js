// What was stopped, by whom, at which rung, and how many steps that saved.

import { el, fill } from "../dom.js";
import { DASH, number } from "../format.js";
import { rungs } from "../space.js";

/** For each rung: who came so far, who was stopped there, and the last value that was needed to go on. */
export function rungRows(data) {
  const rungOf = (trial) => trial.reason?.numbers.rung;
  const seen = data.list.map(rungOf).filter(Number.isFinite); // hyperband has rungs that the space does not name
  const steps = new Set([...rungs(data.space, data.job.steps), ...seen]);
  return [...steps]
    .sort((a, b) => a - b)
    .map((step) => {
      const stopped = data.list.filter((trial) => rungOf(trial) === step);
      const reached = data.list.filter((trial) => trial.last_step >= step).length;
      const last = stopped.sort((a, b) => (a.ended_at ?? 0) - (b.ended_at ?? 0)).at(-1);
      return { step, reached, stopped: stopped.length, needed: last?.reason.numbers.threshold ?? null };
    });
}

/** For each reason to stop a trial: how many, and how many of their steps were not run. */
export function reasonRows(data) {
  const found = new Map();
  for (const trial of data.list) {
    const who = trial.reason?.pruner ?? trial.error?.kind;
    if (!who || trial.state === "running") continue;
    const row = found.get(who) ?? { who, trials: 0, saved: 0, example: trial.reason?.text ?? trial.error.message };
    row.trials += 1;
    if (trial.reason) row.saved += Math.max(0, data.job.steps - trial.last_step); // a failure saves nothing
    found.set(who, row);
  }
  return [...found.values()].sort((a, b) => b.trials - a.trials);
}

export function renderPruning(element, data) {
  const reasons = reasonRows(data);
  const steps = rungRows(data);
  const all =
    data.job.steps * data.list.filter((trial) => trial.state !== "running" && trial.state !== "queued").length;
  const saved = reasons.reduce((sum, row) => sum + row.saved, 0);
  const share = Math.round((100 * saved) / Math.max(1, all));
  const sum = saved
    ? `Pruners saved ${share} % of the steps of the trials that have ended.`
    : "No pruner has stopped a trial yet.";
  fill(
    element,
    el("p", {}, sum),
    reasons.length
      ? table(
          ["reason", "trials", "steps saved", "for example"],
          reasons.map((row) => [row.who, row.trials, row.saved || DASH, row.example]),
        )
      : null,
    steps.length ? el("h3", {}, "Rungs") : null,
    steps.length
      ? table(
          ["rung (step)", "reached", "stopped here", "last needed"],
          steps.map((row) => [row.step, row.reached, row.stopped, number(row.needed)]),
        )
      : null,
  );
}

function table(titles, rows) {
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, String(cell)))))),
    ),
  );
}
