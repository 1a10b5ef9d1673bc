// Which parameters go together with reward and with KL.

import { el, fill } from "../dom.js";
import { DASH } from "../format.js";
import { FEWEST, influenceRows } from "../influence.js";
import { KL } from "../space.js";

export function renderInfluence(element, data) {
  const rows = influenceRows(data);
  if (!rows.length) {
    const words = `It takes ${FEWEST} ended trials with different values to say what goes with reward and with KL.`;
    return fill(element, el("p", { class: "quiet-text" }, words));
  }
  const { metric } = data.job.objective;
  const titles = ["parameter", metric, `${KL} (last)`];
  fill(
    element,
    el("h3", {}, "What goes with reward, and what with KL"),
    el("div", { class: "scroll" }, table(titles, rows)),
    el(
      "p",
      { class: "quiet-text" },
      "Rank correlation; for choices, without a direction. Faded: chance alone reaches as much. " +
        "Reward counts completed trials, KL all that have ended. A best value in the middle of a range does not show.",
    ),
  );
}

function table(titles, rows) {
  const head = el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)));
  const body = rows.map(({ path, reward, kl }) => el("tr", {}, el("td", {}, path), cell(reward), cell(kl)));
  return el("table", { class: "influence" }, el("thead", {}, head), el("tbody", {}, ...body));
}

function cell(found) {
  if (!found) return el("td", {}, DASH);
  const { strength, signed, sure, trials } = found;
  const bar = el("span", { class: strength < 0 ? "fill-infeasible" : "fill-running" });
  bar.style.width = `${Math.round(100 * Math.abs(strength))}%`;
  const direction = !signed ? "" : strength < 0 ? " more is lower" : " more is higher";
  const words = `${Math.abs(strength).toFixed(2)}${direction}`;
  const title = `${trials} trials${sure ? "" : "; chance alone reaches as much"}`;
  return el("td", { class: sure ? null : "unsure", title }, el("span", { class: "stack" }, bar), words);
}
