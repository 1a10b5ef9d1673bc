// What all plots share: colours of both themes, the groups in which trials are drawn, and drawing itself.
//
// Trials are drawn in groups, one line with gaps for each state, because a browser draws ten lines of 2,400 points
// many times faster than 200 lines of 120.

const INK = {
  light: { text: "#1c2733", faint: "#5b6875", grid: "#e3e8ee", paper: "#ffffff", limit: "#b00020", best: "#c2540a" },
  dark: { text: "#dbe4ee", faint: "#93a1b0", grid: "#2b3642", paper: "#161d26", limit: "#ff7b8a", best: "#ffa057" },
};
const STATES = {
  light: {
    running: "#0b6bcb",
    completed: "#1a7f4b",
    pruned: "#8a6d00",
    infeasible: "#8e44ad",
    failed: "#c0262d",
    cancelled: "#66717d",
    paused: "#66717d",
    queued: "#66717d",
  },
  dark: {
    running: "#5cb2ff",
    completed: "#4fce8b",
    pruned: "#d8b43a",
    infeasible: "#cf94ec",
    failed: "#ff7d7d",
    cancelled: "#98a5b3",
    paused: "#98a5b3",
    queued: "#98a5b3",
  },
};

/** Groups back to front: what matters most is drawn last. */
export const ORDER = ["cancelled", "failed", "infeasible", "pruned", "queued", "paused", "completed", "running"];
const FADED = new Set(["pruned", "cancelled", "failed", "infeasible"]);

export function theme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

export function ink() {
  return INK[theme()];
}

export function stateColour(state) {
  return STATES[theme()][state] ?? ink().faint;
}

export function opacity(state) {
  return FADED.has(state) ? 0.4 : 0.9;
}

/** Whether the window is as narrow as a phone's. */
export function isNarrow() {
  return window.innerWidth < 640;
}

export function baseLayout(extra) {
  const { text, paper, faint } = ink();
  return {
    paper_bgcolor: paper,
    plot_bgcolor: paper,
    font: { color: text, size: isNarrow() ? 11 : 12, family: "system-ui, sans-serif" },
    margin: { l: isNarrow() ? 46 : 62, r: isNarrow() ? 10 : 20, t: 8, b: 44 },
    hovermode: "closest",
    hoverlabel: { align: "left", bgcolor: paper, bordercolor: faint, font: { color: text } },
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", itemsizing: "constant" },
    uirevision: "kept",
    dragmode: isNarrow() ? false : "zoom",
    ...extra,
  };
}

export function axis(extra) {
  const { grid, faint } = ink();
  return { gridcolor: grid, zerolinecolor: grid, linecolor: faint, automargin: true, ...extra };
}

let bundle = null;

/** Loads plotly once; only pages that draw pay for it, and what they show besides does not wait for it. */
export function loadPlotly() {
  bundle ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = "/web/plotly.min.js";
    script.addEventListener("load", () => resolve(true));
    script.addEventListener("error", () => {
      script.remove();
      bundle = null; // tried again with the next drawing: the service may only have been away
      resolve(false);
    });
    document.head.append(script);
  });
  return bundle;
}

const CONFIG = { displaylogo: false, responsive: true, displayModeBar: false };

/** Draws or redraws a figure; clicking a trial's point calls `onPick(number)`. */
export async function draw(element, figure, onPick) {
  if (!(await loadPlotly())) {
    element.textContent = "The plots cannot be drawn: /web/plotly.min.js could not be loaded.";
    return;
  }
  const first = !element.classList.contains("js-plotly-plot");
  if (first) element.textContent = "";
  await window.Plotly.react(element, figure.data, figure.layout, CONFIG);
  if (first && onPick) {
    element.on("plotly_click", ({ points }) => {
      const number = points[0]?.customdata;
      if (Number.isInteger(number)) onPick(number);
    });
  }
}

/** Frees what a figure holds. */
export function erase(element) {
  if (window.Plotly && element.classList.contains("js-plotly-plot")) window.Plotly.purge(element);
}
