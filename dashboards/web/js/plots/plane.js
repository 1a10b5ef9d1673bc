// Reward against KL: where each trial ended, which ones no other beats in both, and where the limits are.

import { number, plain, why, wrapped } from "../format.js";
import { KL, klLimits } from "../space.js";
import { ORDER, axis, baseLayout, ink, isNarrow, opacity, stateColour } from "./common.js";

/** Where a trial is: its objective (or the metric's last value while it has none) over its last KL; null if unknown. */
export function place(trial, metric) {
  const y = trial.value ?? trial.metrics[metric] ?? null;
  const x = trial.metrics[KL] ?? null;
  return Number.isFinite(x) && Number.isFinite(y) ? { x, y, trial } : null;
}

/** The points that no other beats in both: less KL and a better objective, by rising KL. */
export function paretoFront(points, direction) {
  const sign = direction === "minimize" ? -1 : 1;
  const sorted = [...points].sort((a, b) => a.x - b.x || sign * (b.y - a.y));
  const front = [];
  for (const point of sorted) if (!front.length || sign * point.y > sign * front.at(-1).y) front.push(point);
  return front;
}

/** The figure, or null when no trial has both numbers. */
export function planeFigure(data, selected) {
  const { metric, direction } = data.job.objective;
  const points = data.list.map((trial) => place(trial, metric)).filter(Boolean);
  if (!points.length) return null;
  const traces = ORDER.map((state) =>
    group(
      points.filter(({ trial }) => trial.state === state),
      state,
      metric,
    ),
  );
  const front = paretoFront(
    points.filter(({ trial }) => trial.state === "completed" && trial.value !== null),
    direction,
  );
  const { best, text } = ink();
  if (front.length) {
    traces.push({
      type: "scatter",
      mode: "lines",
      name: "Pareto front",
      x: front.map(({ x }) => x),
      y: front.map(({ y }) => y),
      line: { color: best, width: 1.6, shape: "hv" },
      hoverinfo: "skip",
    });
  }
  traces.push(ring(points, data.job.best_trial, "best", best), ring(points, selected, "picked", text));
  const found = baseLayout({ height: isNarrow() ? 320 : 400, shapes: [], annotations: [] });
  found.xaxis = axis({ title: { text: `${KL} (last)` }, rangemode: "tozero" });
  found.yaxis = axis({ title: { text: plain(metric), standoff: 6 } });
  addLimits(found, klLimits(data.space));
  return { data: traces.filter(Boolean), layout: found };
}

function group(points, state, metric) {
  if (!points.length) return null;
  const colour = stateColour(state);
  const open = state === "completed" || state === "running" ? 0 : 1.5;
  return {
    type: "scatter",
    mode: "markers",
    name: state,
    x: points.map(({ x }) => x),
    y: points.map(({ y }) => y),
    customdata: points.map(({ trial }) => trial.number),
    text: points.map(
      ({ trial }) =>
        `<b>trial ${trial.number}</b> (${plain(trial.state)})` +
        `<br>${why(trial) ? `${wrapped(why(trial))}<br>` : ""}${plain(metric)} ${number(place(trial, metric).y)}` +
        `, KL ${number(trial.metrics[KL])}, step ${trial.last_step}`,
    ),
    hovertemplate: "%{text}<extra></extra>",
    marker: {
      size: 8,
      color: colour,
      symbol: open ? "x-thin" : "circle",
      opacity: Math.max(0.55, opacity(state)),
      line: { color: colour, width: open },
    },
  };
}

function ring(points, trialNumber, name, colour) {
  const found = points.find(({ trial }) => trial.number === trialNumber);
  return (
    found && {
      type: "scatter",
      mode: "markers",
      name,
      x: [found.x],
      y: [found.y],
      customdata: [trialNumber],
      hoverinfo: "skip",
      marker: { size: 15, symbol: "circle-open", color: colour, line: { width: 2.4, color: colour } },
    }
  );
}

function addLimits(found, limits) {
  const { limit, faint } = ink();
  limits.forEach(({ value, text, kind }, at) => {
    const colour = kind === "ceiling" ? limit : faint;
    found.shapes.push({
      type: "line",
      yref: "y domain",
      xref: "x",
      y0: 0,
      y1: 1,
      x0: value,
      x1: value,
      line: { color: colour, width: 1.6, dash: kind === "ceiling" ? "dash" : "dot" },
    });
    found.annotations.push({
      yref: "y domain",
      xref: "x",
      y: at % 2 ? 0.06 : 0,
      x: value,
      xanchor: "right",
      yanchor: "bottom",
      showarrow: false,
      text: plain(text),
      font: { size: 11, color: colour },
    });
  });
}
