// One trial, with all that is known about it.

import { jobPath } from "../api.js";
import { badge, el, fill } from "../dom.js";
import { duration, moment, number, setting, why } from "../format.js";

export function renderDetail(element, data, selected, onClose) {
  const trial = data.trials.get(selected);
  element.hidden = !trial;
  if (!trial) return fill(element);
  const reason = why(trial);
  fill(
    element,
    el(
      "h2",
      { id: "detail-title" },
      `Trial ${trial.number} `,
      badge(trial.state),
      el("button", { type: "button", class: "quiet close", "aria-label": "Close", on: { click: onClose } }, "Close"),
    ),
    reason ? el("p", { class: "problem" }, reason) : null,
    trial.error?.hint ? el("p", {}, trial.error.hint) : null,
    list([
      ["proposed by", trial.source],
      ["objective", number(trial.value)],
      ["last step", `${trial.last_step} of ${data.job.steps}`],
      ["attempts", trial.attempts],
      ["time", duration(trial.cost_s)],
      ["started", moment(trial.started_at)],
      ["ended", moment(trial.ended_at)],
    ]),
    el("h3", {}, "Parameters"),
    list(Object.entries(trial.params).map(([path, value]) => [path, setting(value)])),
    el("h3", {}, "Constraints"),
    Object.keys(trial.violations).length
      ? list(
          Object.entries(trial.violations).map(([rule, by]) => [
            rule,
            by !== null && by <= 0 ? "holds" : `broken by ${number(by)}`,
          ]),
        )
      : el("p", { class: "quiet-text" }, "Not judged yet, or none."),
    el("h3", {}, "Last metrics"),
    list(
      Object.entries(trial.metrics)
        .sort()
        .map(([name, value]) => [name, number(value)]),
    ),
    el(
      "p",
      {},
      el("a", { href: `${jobPath(data.id)}/logs?trial=${trial.number}`, target: "_blank", rel: "noopener" }, "Log"),
    ),
  );
}

function list(pairs) {
  return el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
}
