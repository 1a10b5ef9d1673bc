// The table of trials: sortable, filtered by state, one row kept for each trial so that focus and scrolling stay.

import { badge, el, fill, setText } from "../dom.js";
import { duration, number, why } from "../format.js";
import { KL } from "../space.js";

const PAGE = 200;

export class TrialTable {
  /** @param {(number: number) => void} onPick */
  constructor(onPick) {
    this.onPick = onPick;
    this.rows = new Map();
    this.sort = { key: "number", descending: false };
    this.state = "";
    this.limit = PAGE;
    this.filter = el("select", {
      id: "state-filter",
      on: {
        change: () => {
          this.state = this.filter.value;
          this.render();
        },
      },
    });
    this.head = el("tr");
    this.body = el("tbody");
    this.note = el("p", { class: "quiet-text" });
    this.more = el("button", {
      type: "button",
      class: "quiet",
      on: {
        click: () => {
          this.limit += PAGE;
          this.render();
        },
      },
    });
    this.element = el(
      "div",
      {},
      el("p", {}, el("label", { for: "state-filter" }, "State "), this.filter),
      el(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Trials" },
        el("table", { class: "trials" }, el("thead", {}, this.head), this.body),
      ),
      this.note,
      this.more,
    );
  }

  update(data, selected) {
    this.data = data;
    this.selected = selected;
    this.render();
  }

  columns() {
    const { metric } = this.data.job.objective;
    return [
      ["number", "trial", (trial) => trial.number],
      ["state", "state", (trial) => trial.state],
      ["step", "step", (trial) => trial.last_step, `${this.data.job.steps}`],
      ["value", metric, (trial) => trial.value ?? trial.metrics[metric] ?? null],
      ["kl", KL, (trial) => trial.metrics[KL] ?? null],
      ["cost", "time", (trial) => trial.cost_s],
      ["why", "why it ended", why],
    ];
  }

  render() {
    const columns = this.columns();
    this.#renderFilter();
    this.#renderHead(columns);
    const read = columns.find(([key]) => key === this.sort.key)[2];
    const shown = this.data.list.filter((trial) => !this.state || trial.state === this.state);
    shown.sort((a, b) => this.#compare(read(a), read(b)) || a.number - b.number);
    const rows = shown.slice(0, this.limit).map((trial) => this.#row(trial));
    // Rows that are in their place already are not touched: a focused button keeps its focus.
    rows.forEach(
      (row, at) => this.body.children[at] !== row && this.body.insertBefore(row, this.body.children[at] ?? null),
    );
    while (this.body.children.length > rows.length) this.body.lastChild.remove();
    const left = shown.length - rows.length;
    this.more.hidden = left <= 0;
    setText(this.more, `Show ${Math.min(PAGE, left)} more`);
    setText(this.note, this.#words(shown.length));
  }

  #words(count) {
    if (!this.data.trials.size) return "No trial has started yet.";
    const more = this.data.moreTrials
      ? ` The job has more than the ${this.data.trials.size} shown here; all of them: autotune show ${this.data.id}`
      : "";
    return `${count} of ${this.data.trials.size} trials.${more}`;
  }

  #compare(a, b) {
    const empty = (value) => value === null || value === undefined || value === "" || Number.isNaN(value);
    if (empty(a) || empty(b)) return Number(empty(a)) - Number(empty(b));
    const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
    return this.sort.descending ? -order : order;
  }

  #renderFilter() {
    const states = [...new Set(this.data.list.map((trial) => trial.state))].sort();
    const key = states.join();
    if (this.filterKey === key) return;
    this.filterKey = key;
    if (!states.includes(this.state)) this.state = "";
    fill(
      this.filter,
      el("option", { value: "" }, "all"),
      ...states.map((state) => el("option", { value: state }, state)),
    );
    this.filter.value = this.state;
  }

  #renderHead(columns) {
    if (!this.head.children.length) {
      this.head.append(
        ...columns.map(([key, title]) =>
          el(
            "th",
            { scope: "col", class: `c-${key}` },
            el("button", { type: "button", on: { click: () => this.#sortBy(key) } }, title),
          ),
        ),
      );
    }
    columns.forEach(([key], at) => {
      const order = key !== this.sort.key ? "none" : this.sort.descending ? "descending" : "ascending";
      this.head.children[at].setAttribute("aria-sort", order);
    });
  }

  #sortBy(key) {
    const descending =
      key === this.sort.key
        ? !this.sort.descending
        : key === "value" && this.data.job.objective.direction !== "minimize";
    this.sort = { key, descending };
    this.render();
  }

  #row(trial) {
    let row = this.rows.get(trial.number);
    if (!row) {
      const pick = el(
        "button",
        { type: "button", class: "link", on: { click: () => this.onPick(trial.number) } },
        String(trial.number),
      );
      row = el(
        "tr",
        {},
        el("td", { class: "c-number" }, pick),
        ...this.columns()
          .slice(1)
          .map(([key, title]) => el("td", { class: `c-${key}`, "data-title": title })),
      );
      row.addEventListener("click", (event) => event.target !== pick && this.onPick(trial.number));
      this.rows.set(trial.number, row);
    }
    const { metric } = this.data.job.objective;
    const [, state, step, value, kl, cost, reason] = row.children;
    if (state.textContent !== trial.state) fill(state, badge(trial.state));
    setText(step, `${trial.last_step} / ${this.data.job.steps}`);
    setText(value, number(trial.value ?? trial.metrics[metric]));
    value.classList.toggle("unsure", trial.value === null);
    setText(kl, number(trial.metrics[KL]));
    setText(cost, duration(trial.cost_s));
    setText(reason, why(trial));
    row.classList.toggle("picked", trial.number === this.selected);
    row.classList.toggle("best", trial.number === this.data.job.best_trial);
    return row;
  }
}
