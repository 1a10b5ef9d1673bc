// One job: its sections, and what is drawn when.

import { el, fill, section, setText } from "./dom.js";
import { JobData } from "./job_data.js";
import { messageOf } from "./messages.js";
import { draw, erase, loadPlotly } from "./plots/common.js";
import { curvesFigure, curvesText } from "./plots/curves.js";
import { parallelFigure } from "./plots/parallel.js";
import { planeFigure } from "./plots/plane.js";
import { Updater } from "./updater.js";
import { Acts } from "./views/acts.js";
import { renderDetail } from "./views/detail.js";
import { EventLog } from "./views/events.js";
import { renderInfluence } from "./views/influence.js";
import { renderPruning } from "./views/pruning.js";
import { renderStages } from "./views/stages.js";
import { renderHead, renderSummary } from "./views/summary.js";
import { TrialTable } from "./views/trials.js";

const DRAW_SHARE = 4; // pauses between two drawings are this many times as long as a drawing takes
const LEAST_PAUSE_MS = 700;
const MOST_PAUSE_MS = 4000;

export class JobPage {
  constructor(element, id) {
    this.data = new JobData(id);
    this.selected = null;
    this.dirty = new Set();
    this.stale = new Set();
    this.events = new EventLog();
    this.table = new TrialTable((number) => this.pick(number));
    this.#build(element);
    this.#watchPlots();
    document.title = `${id} - autotune`;
    this.redraw = () => this.#later("plots");
    this.keys = (event) => this.#onKey(event);
    document.addEventListener("theme", this.redraw);
    document.addEventListener("keydown", this.keys);
    this.updater = new Updater(this.data, (what) => this.#onChange(what));
    this.updater.start();
    loadPlotly();
    this.clock = setInterval(() => this.#onClock(), 5000);
  }

  close() {
    this.closed = true;
    this.updater.close();
    clearTimeout(this.timer);
    clearInterval(this.clock);
    document.removeEventListener("theme", this.redraw);
    document.removeEventListener("keydown", this.keys);
    this.observer.disconnect();
    for (const plot of Object.values(this.plots)) erase(plot);
  }

  #build(element) {
    const plot = (label) => el("div", { class: "plot", role: "img", "aria-label": label });
    this.plots = {
      curves: plot("Reward and KL over steps"),
      plane: plot("Reward against KL"),
      parallel: plot("Parallel coordinates"),
    };
    this.head = el("div", { class: "job-head" }, el("h1", {}, this.data.id));
    this.problem = el("p", { class: "problem", hidden: true });
    this.acts = new Acts(this.data, () => {
      if (this.closed) return;
      this.#drawTrials();
      this.updater.touch();
    }, () => this.selected);
    this.stages = el("ol", { class: "stages", "aria-label": "Stages", hidden: true });
    this.summary = el("div", { class: "tiles" });
    this.detail = el("aside", { id: "detail", hidden: true, "aria-labelledby": "detail-title" });
    this.notes = Object.fromEntries(
      ["curves", "plane", "parallel"].map((name) => [name, el("p", { class: "quiet-text" }, "Loading.")]),
    );
    this.pruning = el("div");
    this.influence = el("div");
    fill(
      element,
      el("p", { class: "crumbs" }, el("a", { href: "#/" }, "All jobs")),
      this.head,
      this.problem,
      this.acts.element,
      this.stages,
      this.summary,
      this.detail,
      section("Reward and KL over steps", "curves", this.notes.curves, this.plots.curves),
      section("Reward against KL", "plane", this.notes.plane, this.plots.plane),
      section("Parameters", "parallel", this.notes.parallel, this.plots.parallel, this.influence),
      section(
        "Trials",
        "trials",
        el("p", { class: "quiet-text keys" }, "Keys: j and k pick the next and the previous trial, Esc lets go."),
        this.table.element,
      ),
      section("Stopped early", "pruning", this.pruning),
      section("Events", "events", this.events.element),
    );
  }

  /** A plot is drawn when it comes near the window, and kept fresh only while it is there. */
  #watchPlots() {
    this.near = new Set();
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) this.near[isIntersecting ? "add" : "delete"](target);
        this.#later("scroll", 0);
      },
      { rootMargin: "300px" },
    );
    for (const plot of Object.values(this.plots)) this.observer.observe(plot.parentElement);
  }

  pickStage(name) {
    this.pick(null);
    this.data.pickStage(name);
    this.updater.touch();
  }

  pick(number) {
    this.selected = number;
    renderDetail(this.detail, this.data, number, () => this.pick(null));
    this.table.update(this.data, number);
    this.#later("plots", 0);
  }

  #onChange({ trials, curves, events, error }) {
    if (this.closed) return;
    this.problem.hidden = !error;
    if (error) setText(this.problem, messageOf(error));
    if (events) this.#later("events");
    if (trials) this.#later("trials");
    if (trials || curves) this.#later("plots");
  }

  #onClock() {
    if (this.data.space && !this.data.ended) renderSummary(this.summary, this.data);
  }

  /** Draws soon, and never so often that drawing is all the page does; what a person did is drawn at once. */
  #later(what, wait = this.pause ?? 0) {
    this.dirty.add(what);
    this.urgent ||= wait === 0;
    if (this.drawing || (this.timer && !this.urgent)) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#draw(), this.urgent ? 0 : wait);
  }

  async #draw() {
    this.timer = null;
    if (this.closed || !this.data.job || !this.data.space) return;
    const dirty = new Set(this.dirty);
    this.dirty.clear();
    this.urgent = false;
    this.drawing = true;
    if (dirty.has("events") || dirty.has("trials")) this.events.update(this.data);
    if (dirty.has("trials")) this.#drawTrials();
    if (dirty.has("plots")) this.stale = new Set(Object.keys(this.plots));
    await loadPlotly(); // once, and no measure of how long drawing takes
    const began = performance.now();
    await this.#drawPlots();
    this.drawing = false;
    this.pause = Math.min(MOST_PAUSE_MS, Math.max(LEAST_PAUSE_MS, DRAW_SHARE * (performance.now() - began)));
    if (this.dirty.size) this.#later([...this.dirty][0], this.urgent ? 0 : this.pause);
  }

  #drawTrials() {
    const { data } = this;
    renderHead(this.head, data);
    renderStages(this.stages, data, (name) => this.pickStage(name));
    renderSummary(this.summary, data);
    renderPruning(this.pruning, data);
    renderInfluence(this.influence, data);
    if (this.selected !== null) renderDetail(this.detail, data, this.selected, () => this.pick(null));
    this.table.update(data, this.selected);
    this.acts.update();
  }

  async #drawPlots() {
    const { data, selected } = this;
    for (const [name, plot] of Object.entries(this.plots)) {
      if (this.closed || !this.stale.has(name) || !this.near.has(plot.parentElement)) continue;
      this.stale.delete(name);
      const figure = FIGURES[name](data, selected);
      setText(this.notes[name], figure ? this.#note(name) : NOTHING[name]);
      plot.hidden = !figure;
      if (!figure) continue;
      if (name === "curves") plot.setAttribute("aria-label", curvesText(data));
      await draw(plot, figure, (number) => this.pick(number));
      await new Promise((resolve) => setTimeout(resolve)); // keys and clicks come between two plots
    }
  }

  #note(name) {
    if (name === "curves") return this.#curvesNote();
    if (name === "parallel") return "Stronger colours are better; a line below an axis has no such parameter.";
    const better = this.data.job.objective.direction === "minimize" ? "Down" : "Up";
    return `${better} is better and left is safer; the front joins the completed trials that none beats in both.`;
  }

  #curvesNote() {
    const left = this.data.list.filter((trial) => trial.last_step > 0).length - this.data.curves.size;
    const missing =
      this.updater?.loaded && left > 0 ? ` ${left} trials without curves here: the best and the newest are drawn.` : "";
    return `Crosses mark the ends of stopped trials; point at one for the reason.${missing}`;
  }

  #onKey(event) {
    const typing = event.target.closest?.("input, select, textarea, dialog[open]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !this.data.trials.size) return;
    if (event.key === "Escape" && this.selected !== null) this.pick(null);
    const step = { j: 1, k: -1 }[event.key];
    if (!step) return;
    const numbers = this.data.list.map((trial) => trial.number);
    const at = numbers.indexOf(this.selected);
    const next = at === -1 ? (step > 0 ? 0 : numbers.length - 1) : Math.max(0, Math.min(numbers.length - 1, at + step));
    this.pick(numbers[next]);
  }
}

const FIGURES = { curves: curvesFigure, plane: planeFigure, parallel: parallelFigure };
const NOTHING = {
  curves: "No trial has reported a step yet.",
  plane: "No trial has both a reward and a KL yet.",
  parallel: "Two trials are needed to compare parameters.",
};
