// The buttons of a job: what they do, when they may be pressed, and what came of it.

import { api, jobPath } from "../api.js";
import { el } from "../dom.js";
import { askForParams } from "../enqueue.js";
import { JOB_ENDS } from "../job_data.js";
import { ask, messageOf, tell } from "../messages.js";

const WORDS = {
  queued: "is queued",
  running: "goes on",
  paused: "starts no new trials; those that run go on",
  stopping: "starts no new trials and ends with those that run",
  cancelled: "is cancelled",
};

export class Acts {
  /**
   * @param {() => void} onDone called after each act, whether it succeeded or not
   * @param {() => number|null} picked the number of the trial that is looked at
   */
  constructor(data, onDone, picked = () => null) {
    this.data = data;
    this.onDone = onDone;
    this.picked = picked;
    const button = (id, words, kind, act) =>
      el("button", { id, type: "button", class: kind, disabled: true, on: { click: act } }, words);
    const link = (words, path) =>
      el("a", { class: "button", href: `${jobPath(data.id)}/${path}`, target: "_blank", rel: "noopener" }, words);
    this.buttons = {
      pause: button("pause", "Pause", null, () => this.#act("pause")),
      resume: button("resume", "Resume", null, () => this.#act("resume")),
      enqueue: button("enqueue", "Try a configuration", null, () => this.#enqueue()),
      stop: button("stop", "Stop", null, () => this.#stop()),
      cancel: button("cancel", "Cancel", "danger", () => this.#cancel()),
    };
    const links = [link("Report", "report"), link("Log", "logs?tail=1000")];
    this.element = el("div", { class: "buttons" }, ...Object.values(this.buttons), ...links);
  }

  update() {
    const { ended, job, space } = this.data;
    const { pause, resume, enqueue, stop, cancel } = this.buttons;
    pause.disabled = !["queued", "running"].includes(job.state);
    resume.disabled = job.state !== "paused" && (!ended || job.state === "completed");
    enqueue.disabled = ended || job.state === "stopping" || !space?.search;
    stop.disabled = ended || job.state === "stopping";
    cancel.disabled = ended;
  }

  async #stop() {
    const running = this.data.job.trials.running ?? 0;
    const text =
      `No more trials are started. ${running} running trials finish, and the job completes with the best so far; ` +
      "it cannot go on afterwards.";
    if (await ask(`Stop ${this.data.id}?`, text, "Yes, stop it")) await this.#act("stop");
  }

  async #cancel() {
    const running = this.data.job.trials.running ?? 0;
    const text =
      `${running} running trials write a checkpoint and end; no more are started. ` +
      "Finished trials keep their results, and the job can be resumed.";
    if (await ask(`Cancel ${this.data.id}?`, text, "Yes, cancel it")) await this.#act("cancel");
  }

  async #enqueue() {
    const { data } = this;
    const near = data.trials.get(this.picked() ?? data.job.best_trial)?.params ?? {};
    const params = await askForParams(data.space, near);
    if (params === null) return;
    await this.#try(async () => {
      const event = await api.enqueue(data.id, params);
      tell(event.text);
    });
  }

  async #act(verb) {
    const { data } = this;
    await this.#try(async () => {
      data.job = await api[verb](data.id);
      const ends = verb === "cancel" && !JOB_ENDS.has(data.job.state);
      tell(`${data.id} ${ends ? "ends as soon as its trials have ended" : (WORDS[data.job.state] ?? data.job.state)}.`);
    });
  }

  async #try(act) {
    for (const button of Object.values(this.buttons)) button.disabled = true;
    try {
      await act();
    } catch (error) {
      tell(messageOf(error), "error");
    }
    this.onDone();
  }
}
