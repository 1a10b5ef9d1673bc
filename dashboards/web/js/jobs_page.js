// All jobs, newest first.

import { api } from "./api.js";
import { badge, el, fill, setText } from "./dom.js";
import { moment, number } from "./format.js";
import { messageOf } from "./messages.js";

const BEAT_MS = 5000;
const ENDED = ["completed", "pruned", "infeasible", "failed", "cancelled"];
const STATES = ["queued", "running", "paused", "stopping", "completed", "failed", "cancelled"];

export class JobsPage {
  constructor(element) {
    this.pages = 1;
    this.state = "";
    this.abort = new AbortController();
    this.table = el("div");
    this.problem = el("p", { class: "problem", hidden: true });
    this.more = el(
      "button",
      {
        type: "button",
        class: "quiet",
        hidden: true,
        on: {
          click: () => {
            this.pages += 1;
            this.#beat();
          },
        },
      },
      "Older jobs",
    );
    const filter = el(
      "select",
      {
        id: "job-state",
        on: {
          change: (event) => {
            this.state = event.target.value;
            this.pages = 1;
            this.#beat();
          },
        },
      },
      el("option", { value: "" }, "all"),
      ...STATES.map((state) => el("option", { value: state }, state)),
    );
    fill(
      element,
      el("h1", {}, "Jobs"),
      el("p", {}, el("label", { for: "job-state" }, "State "), filter),
      this.problem,
      this.table,
      this.more,
    );
    document.title = "autotune";
    this.wake = () => !document.hidden && this.#beat();
    document.addEventListener("visibilitychange", this.wake);
    this.#beat();
  }

  close() {
    this.closed = true;
    this.abort.abort();
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.wake);
  }

  async #beat() {
    clearTimeout(this.timer);
    const turn = (this.turn = (this.turn ?? 0) + 1);
    try {
      if (!document.hidden) {
        const [jobs, more] = await this.#read();
        if (this.closed || turn !== this.turn) return;
        this.#render(jobs, more);
        this.problem.hidden = true;
      }
    } catch (error) {
      if (this.closed || turn !== this.turn) return;
      this.problem.hidden = false;
      setText(this.problem, messageOf(error));
    }
    this.timer = setTimeout(() => this.#beat(), BEAT_MS);
  }

  async #read() {
    const jobs = [];
    let cursor = null;
    for (let page = 0; page < this.pages; page += 1) {
      const found = await api.jobs(this.state, cursor, this.abort.signal);
      jobs.push(...found.items);
      cursor = found.next;
      if (cursor === null) break;
    }
    return [jobs, cursor !== null];
  }

  #render(jobs, more) {
    this.more.hidden = !more;
    const key = JSON.stringify(jobs);
    if (key === this.key) return;
    this.key = key;
    const focused = document.activeElement?.getAttribute?.("href");
    if (!jobs.length) {
      const none = this.state ? `No job is ${this.state}.` : "No job yet. Start one with ";
      fill(this.table, el("p", {}, none, this.state ? null : el("code", {}, "autotune launch quickstart")));
      return;
    }
    const titles = ["job", "state", "trials", "best", "default", "objective", "submitted"];
    fill(
      this.table,
      el(
        "table",
        { class: "jobs" },
        el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)))),
        el("tbody", {}, ...jobs.map(row)),
      ),
    );
    if (focused) this.table.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  }
}

function row(job) {
  const done = ENDED.reduce((sum, state) => sum + (job.trials[state] ?? 0), 0);
  const words = Object.entries(job.trials)
    .filter(([, count]) => count)
    .map(([state, count]) => `${count} ${state}`)
    .join(", ");
  const cells = [
    [
      "job",
      el("a", { href: `#/jobs/${encodeURIComponent(job.id)}` }, job.id),
      el("div", { class: "quiet-text" }, job.description),
    ],
    ["state", badge(job.state), job.error ? el("div", { class: "quiet-text" }, job.error.message) : null],
    ["trials", el("span", { title: words }, `${done} of ${job.budget_trials}`)],
    ["best", number(job.best_value)],
    ["default", number(job.default_value)],
    ["objective", `${job.objective.direction} ${job.objective.metric}`],
    ["submitted", moment(job.created_at)],
  ];
  return el("tr", {}, ...cells.map(([title, ...content]) => el("td", { "data-title": title }, ...content)));
}
