// The buttons of a job: what they do, when they may be pressed, and what came of it.

import { api, jobPath } from "../api.js";
import { el } from "../dom.js";
import { JOB_ENDS } from "../job_data.js";
import { ask, messageOf, tell } from "../messages.js";

export class Acts {
  /** @param {() => void} onDone called after each act, whether it succeeded or not */
  constructor(data, onDone) {
    this.data = data;
    this.onDone = onDone;
    const button = (id, words, kind, act) =>
      el("button", { id, type: "button", class: kind, disabled: true, on: { click: act } }, words);
    const link = (words, path) =>
      el("a", { class: "button", href: `${jobPath(data.id)}/${path}`, target: "_blank", rel: "noopener" }, words);
    this.cancel = button("cancel", "Cancel", "danger", () => this.#cancel());
    this.resume = button("resume", "Resume", null, () => this.#act("resume"));
    const links = [link("Report", "report"), link("Log", "logs?tail=1000")];
    this.element = el("div", { class: "buttons" }, this.cancel, this.resume, ...links);
  }

  update() {
    const { ended, job } = this.data;
    this.cancel.disabled = ended;
    this.resume.disabled = !ended || job.state === "completed";
  }

  async #cancel() {
    const running = this.data.job.trials.running ?? 0;
    const text =
      `${running} running trials write a checkpoint and end; no more are started. ` +
      "Finished trials keep their results, and the job can be resumed.";
    if (await ask(`Cancel ${this.data.id}?`, text, "Yes, cancel it")) await this.#act("cancel");
  }

  async #act(verb) {
    const { data } = this;
    this.cancel.disabled = this.resume.disabled = true;
    try {
      data.job = await api[verb](data.id);
      const done = verb === "resume" ? "is queued again" : "is cancelled";
      const words = verb === "resume" || JOB_ENDS.has(data.job.state) ? done : "ends as soon as its trials have ended";
      tell(`${data.id} ${words}.`);
    } catch (error) {
      tell(messageOf(error), "error");
    }
    this.onDone();
  }
}
