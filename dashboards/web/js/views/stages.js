// The stages of a job: what each has come to, and which one the page shows.

import { badge, el, fill } from "../dom.js";
import { duration, number } from "../format.js";

/**
 * Draws the stages; nothing for a job without.
 * @param {(name: string) => void} onPick shows another stage
 */
export function renderStages(element, data, onPick) {
  const stages = data.job.stages ?? [];
  element.hidden = !stages.length;
  fill(element, ...stages.map((stage, place) => stageItem(stage, place, data.shown, onPick)));
}

function stageItem(stage, place, shown, onPick) {
  const ended = Object.values(stage.trials).reduce((sum, count) => sum + count, 0);
  const found = stage.best_trial === null ? "" : `, ${stage.objective.metric} ${number(stage.best_value)} (trial ${stage.best_trial})`;
  const pressed = stage.name === shown;
  return el(
    "li",
    {},
    el(
      "button",
      { type: "button", "aria-pressed": String(pressed), on: { click: () => onPick(stage.name) } },
      `${place + 1}. ${stage.name}`,
    ),
    " ",
    badge(stage.state),
    el("span", { class: "quiet-text" }, ` ${ended} of ${stage.budget_trials} trials, ${duration(stage.cost_s)}${found}`),
    ...criteria(stage),
  );
}

function criteria(stage) {
  if (!stage.checks.length) return stage.criteria.map((text) => el("p", { class: "quiet-text" }, `must reach ${text}`));
  return stage.checks.map((check) => {
    const numbers = Object.entries(check.numbers).map(([name, value]) => `${name} = ${number(value)}`);
    const verdict = check.holds ? "holds" : "does not hold";
    return el("p", { class: check.holds ? "quiet-text" : "missed" }, `${check.text} ${verdict} (${numbers.join(", ")})`);
  });
}
