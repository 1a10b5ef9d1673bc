// Parallel coordinates with ordinary lines. Plotly's own kind needs WebGL, compiles code at run time (which the
// page's policy forbids), and can show neither a parameter that a trial does not have nor a trial without a value.

import { number, plain, setting, shortNames } from "../format.js";
import { KL, isLog } from "../space.js";
import { axis, baseLayout, ink, isNarrow, theme } from "./common.js";

const MOST_LINES = 500;
const BINS = {
  light: ["#c9d6f2", "#8fb0e8", "#4f86d9", "#1f5fc0", "#0b3d91"],
  dark: ["#2f4668", "#3c69a8", "#4f8fe0", "#84b6ff", "#d2e5ff"],
};
const ABSENT = -0.09;

/** The figure, or null when there is nothing to compare. */
export function parallelFigure(data, selected) {
  const shown = chosen(data);
  const axes = makeAxes(data, shown);
  if (shown.length < 2 || !axes.length) return null;
  const traces = [];
  const without = shown.filter((trial) => trial.value === null);
  traces.push(lines(without, axes, { color: ink().faint, width: 0.8 }, 0.3, "no value"));
  const ranked = shown.filter((trial) => trial.value !== null).sort((a, b) => better(data, b, a));
  const colours = BINS[theme()];
  colours.forEach((color, bin) => {
    const part = ranked.filter((_, at) => Math.floor((at * colours.length) / ranked.length) === bin);
    const name = bin === 0 ? "worst fifth" : bin === colours.length - 1 ? "best fifth" : null;
    traces.push(lines(part, axes, { color, width: 1 + bin * 0.25 }, 0.75, name));
  });
  const best = shown.filter((trial) => trial.number === data.job.best_trial);
  const picked = shown.filter((trial) => trial.number === selected);
  traces.push(lines(best, axes, { color: ink().best, width: 2.8 }, 1, "best"));
  traces.push(lines(picked, axes, { color: ink().text, width: 3.2 }, 1, "picked"));
  return { data: traces.filter(Boolean), layout: layout(axes) };
}

/** Whether, and by how much, trial `a` is better than `b`. */
function better(data, a, b) {
  return (data.job.objective.direction === "minimize" ? -1 : 1) * (a.value - b.value);
}

function chosen(data) {
  const all = data.list.filter((trial) => Object.keys(trial.params).length);
  if (all.length <= MOST_LINES) return all;
  const ranked = all.filter((trial) => trial.value !== null).sort((a, b) => better(data, b, a));
  return ranked.slice(0, MOST_LINES);
}

function makeAxes(data, shown) {
  const paths = [...new Set(shown.flatMap((trial) => Object.keys(trial.params)))];
  const names = shortNames(paths);
  const axes = paths.map((path) => {
    const wantsLog = (values) => isLog(data.space, path) && values[0] > 0;
    return makeAxis(names.get(path), path, shown, (trial) => trial.params[path], wantsLog);
  });
  const { metric } = data.job.objective;
  axes.push(
    makeAxis(
      KL,
      KL,
      shown,
      (trial) => trial.metrics[KL],
      () => false,
    ),
  );
  axes.push(
    makeAxis(
      metric,
      metric,
      shown,
      (trial) => trial.value,
      () => false,
    ),
  );
  return axes.filter(Boolean);
}

function makeAxis(name, path, shown, read, wantsLog) {
  const present = shown.map(read).filter((value) => value !== undefined && value !== null);
  if (!present.length) return null;
  if (present.every((value) => typeof value === "number")) {
    const values = present.filter(Number.isFinite).sort((a, b) => a - b);
    if (!values.length) return null;
    const scale = wantsLog(values) ? Math.log : (value) => value;
    const [low, high] = [scale(values[0]), scale(values.at(-1))];
    const height = (value) => (high > low ? (scale(value) - low) / (high - low) : 0.5);
    const ends = [
      [0, number(values[0], 3)],
      [1, number(values.at(-1), 3)],
    ];
    return { name, path, read, height, ticks: high > low ? ends : [[0.5, number(values[0])]] };
  }
  const kinds = [...new Set(present.map(setting))].sort();
  const height = (value) => (kinds.length > 1 ? kinds.indexOf(setting(value)) / (kinds.length - 1) : 0.5);
  return { name, path, read, height, ticks: kinds.slice(0, 12).map((kind) => [height(kind), kind]) };
}

function lines(trials, axes, line, opacity, name) {
  if (!trials.length) return null;
  const found = { x: [], y: [], customdata: [], text: [] };
  for (const trial of trials) {
    axes.forEach(({ read, height, path }, at) => {
      const value = read(trial);
      const missing = value === undefined || value === null || Number.isNaN(value);
      found.x.push(at);
      found.y.push(missing ? ABSENT : height(value));
      found.customdata.push(trial.number);
      const text = `${plain(path)} = ${missing ? "none" : plain(setting(value))}`;
      found.text.push(`<b>trial ${trial.number}</b> (${plain(trial.state)})<br>${text}`);
    });
    found.x.push(null);
    found.y.push(null);
    found.customdata.push(trial.number);
    found.text.push("");
  }
  return {
    type: "scatter",
    mode: "lines",
    ...found,
    line,
    opacity,
    name: name ?? "",
    showlegend: name !== null,
    hovertemplate: "%{text}<extra></extra>",
  };
}

function layout(axes) {
  const { faint, text, paper } = ink();
  const found = baseLayout({ height: isNarrow() ? 380 : 420, shapes: [], annotations: [] });
  found.margin = { ...found.margin, l: 30, r: 40, b: isNarrow() ? 120 : 90, t: 16 };
  found.legend = { ...found.legend, y: 1.08 };
  if (isNarrow()) found.width = Math.max(320, 80 * axes.length + 60); // it scrolls sideways then
  const bare = { showgrid: false, zeroline: false, showline: false };
  const titles = axes.map(({ name }) => plain(name.length > 24 ? `…${name.slice(-23)}` : name));
  found.xaxis = axis({
    ...bare,
    range: [-0.35, axes.length - 0.55],
    tickvals: axes.map((_, at) => at),
    ticktext: titles,
    tickangle: axes.length > 5 || isNarrow() ? -35 : 0,
  });
  found.yaxis = axis({ ...bare, range: [-0.14, 1.06], showticklabels: false });
  axes.forEach(({ ticks }, at) => {
    found.shapes.push({ type: "line", x0: at, x1: at, y0: 0, y1: 1, line: { color: faint, width: 1 } });
    for (const [y, label] of ticks) {
      found.annotations.push({
        x: at,
        y,
        text: plain(label.slice(0, 16)),
        showarrow: false,
        xanchor: "left",
        xshift: 3,
        bgcolor: paper,
        opacity: 0.9,
        font: { size: 10, color: text },
      });
    }
  });
  return found;
}
