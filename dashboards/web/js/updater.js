// Keeps a JobData fresh: events say what has changed, a slow beat reads what moves without events (the curves of
// running trials), and a service that is away is asked again, more and more rarely, until it is back.

import { ApiError } from "./api.js";
import { follow } from "./follow.js";

const BEAT_MS = 2500;
const SLOWEST_MS = 15_000;
const GATHER_MS = 400; // events come in bursts; what they changed is read once
const AFTERMATH_S = 60; // after its end a trial's process is cleared away, which the record tells too
const MANY = 12; // so many changed trials are cheaper to read as a list

export class Updater {
  /** @param {(what: {trials?: boolean, curves?: boolean, events?: boolean, error?: Error}) => void} onChange */
  constructor(data, onChange) {
    this.data = data;
    this.onChange = onChange;
    this.changed = new Set();
    this.waitingForCurves = new Set();
    this.delay = BEAT_MS;
    this.loaded = false;
    this.closed = false;
    this.following = null;
    this.lastEvent = 0;
    this.inBacklog = true;
    this.wake = () => (document.hidden ? this.#rest() : this.#resume());
    document.addEventListener("visibilitychange", this.wake);
  }

  start() {
    this.#schedule(0);
  }

  /** Reads the job at once, for example after a button. */
  touch() {
    this.changed.add(-1);
    this.#follow();
    this.#schedule(0);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.quiet);
    this.following?.close();
    this.data.close();
    document.removeEventListener("visibilitychange", this.wake);
  }

  /** A hidden page lets go of its line: a browser has six for each service, and people have more tabs than that. */
  #rest() {
    this.following?.close();
    this.following = null;
  }

  #resume() {
    if (this.loaded && !this.following) this.#follow();
    this.#schedule(0);
  }

  #schedule(delay) {
    if (this.closed) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#beat(), delay);
  }

  async #beat() {
    if (this.busy || this.closed) return;
    this.busy = true;
    try {
      await (this.loaded ? this.#refresh() : this.#load());
      this.delay = BEAT_MS;
    } catch (error) {
      if (this.closed || error.name === "AbortError") return;
      // A defect of ours must be seen in the console; a service that is away must not fill it.
      if (!(error instanceof ApiError)) console.error(error);
      this.delay = Math.min(SLOWEST_MS, this.delay * 1.7);
      this.onChange({ error });
      if (error.status === 404) return;
    } finally {
      this.busy = false;
    }
    const idle = this.loaded && this.data.ended && !this.waitingForCurves.size;
    this.#schedule(this.changed.size ? Math.max(GATHER_MS, this.delay - BEAT_MS) : idle ? SLOWEST_MS : this.delay);
  }

  async #load() {
    const { data } = this;
    await data.loadJob();
    await data.loadSpace();
    await this.#loadStage();
    this.loaded = true;
    this.#follow();
  }

  /** Reads all trials and curves of the stage that is shown, or of a job without stages. */
  async #loadStage() {
    const { data } = this;
    await data.loadTrials();
    data.moved = false;
    this.waitingForCurves.clear();
    this.onChange({ trials: true });
    await data.loadCurves(data.drawn(), () => this.onChange({ curves: true }));
    this.onChange({ trials: true, curves: true });
  }

  #follow() {
    this.following?.close();
    this.following = null;
    if (document.hidden) return;
    this.following = follow(this.data.id, {
      after: this.lastEvent,
      onEvent: (event) => {
        this.lastEvent = event.id;
        this.data.addEvent(event);
        this.onChange({ events: true });
        clearTimeout(this.quiet);
        this.quiet = setTimeout(() => (this.inBacklog = false), GATHER_MS);
        if (this.inBacklog && this.#isKnown(event)) return;
        this.changed.add((this.data.isShown(event) ? event.trial : null) ?? -1);
        if (!this.busy) this.#schedule(GATHER_MS);
      },
      onEnd: () => {
        this.changed.add(-1);
        this.#schedule(GATHER_MS);
      },
    });
  }

  /** Whether an old event, sent again from the beginning, tells about an end that was read already. */
  #isKnown(event) {
    if (!this.data.isShown(event)) return true; // of a stage that is over, or of one that the job tells about itself
    const end = event.trial === null ? this.data.job.ended_at : this.data.trials.get(event.trial)?.ended_at;
    return typeof end === "number" && event.at <= end + AFTERMATH_S;
  }

  async #refresh() {
    const { data } = this;
    const hadEnded = data.ended;
    if (document.hidden && !this.changed.size) return;
    const changed = new Set(this.changed);
    this.changed.clear();
    try {
      await data.loadJob();
      if (data.moved) return await this.#loadStage();
      const numbers = [...changed].filter((number) => number >= 0);
      if (hadEnded && !data.ended) this.#follow(); // somebody has resumed it
      if (numbers.length > MANY) await data.loadTrials();
      else if (numbers.length) await data.loadSome(numbers);
      const gone = data.ended ? [] : await data.loadRunning();
      if (gone.length) await data.loadSome(gone);
      for (const number of [...numbers, ...gone, ...data.running()]) this.waitingForCurves.add(number);
    } catch (error) {
      for (const number of changed) this.changed.add(number); // asked again once the service is back
      throw error;
    }
    this.onChange({ trials: true });
    const drawn = new Set(data.drawn());
    const wanted = [...this.waitingForCurves].filter((number) => drawn.has(number));
    if (wanted.length) await data.loadCurves(wanted);
    this.waitingForCurves.clear();
    if (wanted.length) this.onChange({ curves: true });
  }
}
