// All that is known about one job, kept up to date with little traffic: the record tells what has changed, and only
// that is read again. Memory is bounded: curves are thinned, events beyond the newest are dropped.

import { api } from "./api.js";
import { KL } from "./space.js";
import { jobInStage, spaceInStage } from "./stages.js";

export const JOB_ENDS = new Set(["completed", "failed", "cancelled"]);
export const MOST_TRIALS = 2000; // kept in the page; a table of more helps nobody
export const MOST_CURVES = 300;
export const MOST_EVENTS = 300;
const POINTS_IN_ALL = 24_000;
const CHUNK = 40; // trials whose curves are read in one request

export class JobData {
  constructor(id) {
    this.id = id;
    this.job = null;
    this.document = null;
    this.wanted = null; // the stage that a person has picked; null = the one that the job is at
    this.shown = "";
    this.moved = false; // another stage is shown than the one whose trials were read
    this.trials = new Map();
    this.curves = new Map();
    this.events = [];
    this.eventCount = 0;
    this.moreTrials = false;
    this.abort = new AbortController();
  }

  get signal() {
    return this.abort.signal;
  }

  get ended() {
    return JOB_ENDS.has(this.job?.state);
  }

  /** Metrics whose curves are drawn, top to bottom. */
  get panels() {
    return [...new Set([this.job.objective.metric, "reward/mean", KL])];
  }

  /** Trials by number. */
  get list() {
    return [...this.trials.values()].sort((a, b) => a.number - b.number);
  }

  /** The job's space, as the stage that is shown has it. */
  get space() {
    return spaceInStage(this.document, this.shown);
  }

  async loadJob() {
    const job = await api.job(this.id, this.signal);
    const shown = this.wanted ?? job.stage ?? "";
    this.job = jobInStage(job, shown);
    if (this.shown === shown) return;
    this.shown = shown;
    this.moved = true;
    this.trials.clear(); // each stage numbers its own
    this.curves.clear();
  }

  /** Shows the trials of another stage, from the next reading on. */
  pickStage(name) {
    this.wanted = name;
  }

  /** Whether an event is about the stage that is shown. */
  isShown(event) {
    return (event.stage ?? "") === this.shown;
  }

  async loadSpace() {
    this.document = await api.space(this.id, this.signal);
  }

  /** Reads the trials; the newest of very many are left out, and `moreTrials` says so. */
  async loadTrials() {
    let cursor = null;
    let read = 0;
    do {
      const page = await api.trials(this.id, { cursor, stage: this.shown }, this.signal);
      for (const trial of page.items) this.trials.set(trial.number, trial);
      cursor = page.next;
      read += page.items.length;
    } while (cursor !== null && read < MOST_TRIALS);
    this.moreTrials = cursor !== null;
    const best = this.job?.best_trial ?? null;
    if (best !== null && !this.trials.has(best)) await this.loadSome([best]);
  }

  /** Reads single trials again. */
  async loadSome(numbers) {
    const found = await Promise.all(numbers.map((number) => api.trial(this.id, number, this.shown, this.signal)));
    for (const trial of found) this.trials.set(trial.number, trial);
  }

  /** Reads the running trials again; returns the numbers of those that ran and no longer do. */
  async loadRunning() {
    const before = this.running();
    const page = await api.trials(this.id, { state: "running", stage: this.shown }, this.signal);
    for (const trial of page.items) this.trials.set(trial.number, trial);
    const now = new Set(page.items.map((trial) => trial.number));
    return before.filter((number) => !now.has(number));
  }

  running() {
    return this.list.filter((trial) => trial.state === "running").map((trial) => trial.number);
  }

  /** The trials whose curves are worth drawing when there are very many: running ones, the best, the newest. */
  drawn() {
    const all = this.list.filter((trial) => trial.last_step > 0 || trial.state === "running");
    if (all.length <= MOST_CURVES) return all.map((trial) => trial.number);
    const sign = this.job.objective.direction === "minimize" ? -1 : 1;
    const rank = (trial) =>
      trial.state === "running" || trial.source === "default" ? Infinity : sign * (trial.value ?? -sign * Infinity);
    const ranked = all.sort((a, b) => rank(b) - rank(a) || b.number - a.number);
    return ranked.slice(0, MOST_CURVES).map((trial) => trial.number);
  }

  /** Reads curves in several requests and calls `onPart` after each, so that the first ones show early. */
  async loadCurves(numbers, onPart = () => {}) {
    const share = Math.floor(POINTS_IN_ALL / Math.max(1, Math.min(this.trials.size, MOST_CURVES)));
    const points = Math.max(40, Math.min(500, share));
    for (let at = 0; at < numbers.length; at += CHUNK) {
      const part = numbers.slice(at, at + CHUNK);
      const options = { metric: this.panels, trial: part, max_points: points, stage: this.shown };
      for (const curve of await api.curves(this.id, options, this.signal)) this.curves.set(curve.trial, curve);
      onPart();
    }
    const kept = new Set(this.drawn());
    for (const number of this.curves.keys()) if (!kept.has(number)) this.curves.delete(number);
  }

  addEvent(event) {
    this.events.push(event);
    this.eventCount += 1;
    if (this.events.length > MOST_EVENTS) this.events.splice(0, this.events.length - MOST_EVENTS);
  }

  close() {
    this.abort.abort();
  }
}
