// The job's record, newest first; only the lines that are new are added.

import { el, setText } from "../dom.js";
import { moment } from "../format.js";
import { MOST_EVENTS } from "../job_data.js";

export class EventLog {
  constructor() {
    this.list = el("ol", { class: "events", role: "log", "aria-label": "Events", tabindex: "0" });
    this.note = el("p", { class: "quiet-text" });
    this.element = el("div", {}, this.note, this.list);
    this.last = 0;
  }

  update(data) {
    const fresh = data.events.filter((event) => event.id > this.last);
    for (const event of fresh) this.list.prepend(line(event));
    this.last = fresh.at(-1)?.id ?? this.last;
    while (this.list.children.length > MOST_EVENTS) this.list.lastChild.remove();
    const words =
      data.eventCount > MOST_EVENTS
        ? `The newest ${MOST_EVENTS} of ${data.eventCount} events.`
        : `${data.eventCount} events.`;
    setText(this.note, data.eventCount ? words : "Nothing has happened yet.");
  }
}

function line(event) {
  const when = el("time", { datetime: new Date(event.at * 1000).toISOString() }, moment(event.at, false));
  return el(
    "li",
    { class: `kind-${event.kind.replaceAll(/[^a-z]/g, "-")}` },
    when,
    " ",
    el("b", {}, event.kind),
    " ",
    event.text,
  );
}
