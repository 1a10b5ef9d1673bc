// Reward and KL of all trials over one shared axis of steps.

import { number, plain, why, wrapped } from "../format.js";
import { KL, klLimits } from "../space.js";
import { ORDER, axis, baseLayout, ink, isNarrow, opacity, stateColour } from "./common.js";

const GAP = 0.06;

/** The figure, or null when no curve has a point. */
export function curvesFigure(data, selected) {
  const panels = data.panels.filter((metric) => [...data.curves.values()].some((curve) => hasPoints(curve, metric)));
  if (!panels.length) return null;
  const traces = [];
  panels.forEach((metric, place) => {
    for (const state of ORDER) traces.push(...groupTraces(data, metric, place, state));
    for (const [number_, role] of singled(data, selected)) traces.push(singleTrace(data, metric, place, number_, role));
  });
  return { data: traces.filter(Boolean), layout: layout(data, panels) };
}

function hasPoints(curve, metric) {
  return (curve.metrics[metric] ?? []).some((value) => value !== null);
}

function points(curve, metric) {
  const x = [];
  const y = [];
  (curve?.metrics[metric] ?? []).forEach((value, place) => {
    if (value === null) return;
    x.push(curve.steps[place]);
    y.push(value);
  });
  return { x, y };
}

function yAxis(place) {
  return place === 0 ? "y" : `y${place + 1}`;
}

/** One line with gaps for all trials of a state, and a cross where pruners have ended them. */
function groupTraces(data, metric, place, state) {
  const line = { x: [], y: [], customdata: [], text: [] };
  const ends = { x: [], y: [], customdata: [], text: [] };
  for (const trial of data.list) {
    if (trial.state !== state) continue;
    const { x, y } = points(data.curves.get(trial.number), metric);
    if (!x.length) continue;
    const text = hover(trial, data.job);
    for (let at = 0; at < x.length; at += 1) push(line, x[at], y[at], trial.number, text);
    push(line, null, null, trial.number, text);
    push(ends, x.at(-1), y.at(-1), trial.number, text);
  }
  if (!line.x.length) return [];
  const colour = stateColour(state);
  const shared = {
    type: "scatter",
    yaxis: yAxis(place),
    xaxis: "x",
    legendgroup: state,
    name: state,
    hovertemplate: `%{text}<br>step %{x}: ${plain(metric)} %{y:.4g}<extra></extra>`,
  };
  const crowd = ends.x.length > 40;
  const lines = {
    ...shared,
    ...line,
    mode: "lines",
    line: { color: colour, width: crowd ? 0.9 : 1.3 },
    opacity: opacity(state) * (crowd ? 0.65 : 1),
    showlegend: place === 0,
    connectgaps: false,
  };
  const sparse = ends.x.length === line.x.length / 2; // a single point makes no line
  if (state === "completed" || (state === "running" && !sparse)) return [lines];
  const symbol = state === "running" ? "circle" : "x-thin";
  const marks = {
    ...shared,
    ...ends,
    mode: "markers",
    showlegend: false,
    opacity: 0.85,
    marker: { symbol, size: crowd ? 5 : 7, color: colour, line: { color: colour, width: crowd ? 1 : 1.6 } },
  };
  return [lines, marks];
}

function push(group, x, y, customdata, text) {
  group.x.push(x);
  group.y.push(y);
  group.customdata.push(customdata);
  group.text.push(text);
}

function hover(trial, job) {
  const role = trial.number === job.best_trial ? ", best" : trial.source === "default" ? ", default" : "";
  const reason = why(trial);
  return `<b>trial ${trial.number}</b> (${plain(trial.state)}${role})${reason ? `<br>${wrapped(reason)}` : ""}`;
}

/** Trials that get a line of their own: the default, the best, and the one that was picked. */
function singled(data, selected) {
  const found = [];
  const original = data.list.find((trial) => trial.source === "default");
  if (original) found.push([original.number, "default"]);
  if (data.job.best_trial !== null) found.push([data.job.best_trial, "best"]);
  if (selected !== null) found.push([selected, "selected"]);
  return found;
}

function singleTrace(data, metric, place, trialNumber, role) {
  const trial = data.trials.get(trialNumber);
  const { x, y } = points(data.curves.get(trialNumber), metric);
  if (!trial || !x.length) return null;
  const { best, text } = ink();
  const style = {
    default: { color: text, width: 1.8, dash: "dot" },
    best: { color: best, width: 2.6 },
    selected: { color: text, width: 3.2 },
  }[role];
  return {
    type: "scatter",
    mode: x.length === 1 ? "markers" : "lines",
    x,
    y,
    xaxis: "x",
    yaxis: yAxis(place),
    line: style,
    marker: { color: style.color },
    name: role === "selected" ? "picked" : role,
    legendgroup: role,
    showlegend: place === 0,
    customdata: x.map(() => trialNumber),
    text: x.map(() => hover(trial, data.job)),
    hovertemplate: `%{text}<br>step %{x}: ${plain(metric)} %{y:.4g}<extra></extra>`,
  };
}

function layout(data, panels) {
  const height = (1 - GAP * (panels.length - 1)) / panels.length;
  const found = baseLayout({ shapes: [], annotations: [], height: (isNarrow() ? 170 : 210) * panels.length + 80 });
  found.xaxis = axis({ title: { text: "training step" }, anchor: yAxis(panels.length - 1), range: xRange(data) });
  panels.forEach((metric, place) => {
    const top = 1 - place * (height + GAP);
    const key = place === 0 ? "yaxis" : `yaxis${place + 1}`;
    found[key] = axis({ domain: [Math.max(0, top - height), top], title: { text: plain(metric), standoff: 6 } });
    if (metric === KL) addLimits(found, klLimits(data.space), yAxis(place));
  });
  return found;
}

function xRange(data) {
  const last = Math.max(data.job.steps, ...data.list.map((trial) => trial.last_step));
  return [0, Math.max(1, last * 1.02)];
}

/** The KL limits as lines across the panel; a limit far above every curve still gets its place. */
function addLimits(found, limits, y) {
  const { limit, faint } = ink();
  for (const { value, text, kind } of limits) {
    const colour = kind === "ceiling" ? limit : faint;
    found.shapes.push({
      type: "line",
      xref: "x domain",
      yref: y,
      x0: 0,
      x1: 1,
      y0: value,
      y1: value,
      layer: "above",
      line: { color: colour, width: 1.6, dash: kind === "ceiling" ? "dash" : "dot" },
    });
    const side = kind === "ceiling" ? { x: 1, xanchor: "right" } : { x: 0.01, xanchor: "left" };
    found.annotations.push({
      xref: "x domain",
      yref: y,
      y: value,
      ...side,
      yanchor: "bottom",
      showarrow: false,
      text: plain(text),
      font: { size: 11, color: colour },
    });
  }
}

/** One sentence about the curves for those who cannot see them. */
export function curvesText(data) {
  const counts = Object.entries(data.job.trials).filter(([, count]) => count);
  const best =
    data.job.best_trial === null ? "none yet" : `trial ${data.job.best_trial} with ${number(data.job.best_value)}`;
  const states = counts.map(([state, count]) => `${count} ${state}`).join(", ");
  return `Curves of ${data.curves.size} trials (${states}); best: ${best}.`;
}
