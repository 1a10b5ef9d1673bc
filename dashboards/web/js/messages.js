// What the page says to people outside its sections: the connection, what went wrong, and questions before an act.

import { ApiError } from "./api.js";
import { el, setText } from "./dom.js";

/** One sentence about an error, with the fix. */
export function messageOf(error) {
  if (!(error instanceof ApiError)) return `This page failed: ${error.message}`;
  return error.hint ? `${error.message} ${error.hint}` : error.message;
}

/** Shows a sentence until it is clicked away or 12 seconds have passed. */
export function tell(text, kind = "info") {
  const note = el(
    "div",
    { class: `message ${kind}` },
    text,
    el(
      "button",
      { type: "button", class: "quiet", "aria-label": "Dismiss", on: { click: () => note.remove() } },
      "Dismiss",
    ),
  );
  document.getElementById("messages").append(note);
  setTimeout(() => note.remove(), 12_000);
}

/** Shows whether the service answers. */
export function showConnection(isThere) {
  const place = document.getElementById("connection");
  place.classList.toggle("away", !isThere);
  setText(place, isThere ? "connected" : "the service does not answer; trying again");
}

/** Asks before something that cannot be taken back. */
export function ask(title, text, yes) {
  const dialog = document.getElementById("question");
  setText(document.getElementById("question-title"), title);
  setText(document.getElementById("question-text"), text);
  setText(document.getElementById("question-yes"), yes);
  dialog.showModal();
  return new Promise((resolve) => {
    const answer = (said) => () => {
      resolve(said);
      dialog.close();
    };
    document.getElementById("question-yes").onclick = answer(true);
    document.getElementById("question-no").onclick = answer(false);
    // Esc. The event comes late: by then the next question may be open, and this must not answer that one.
    dialog.onclose = () => {
      if (!dialog.open) resolve(false);
    };
  });
}
