// Follows a job's record. A browser reconnects by itself after a broken line, but gives up after an error answer
// (a proxy's 502 while the service restarts): then a new line is opened where the old one ended.

import { jobPath } from "./api.js";

const RETRY_MS = 3000;

/**
 * Calls `onEvent` for each event of the job, in order, each once, until the job has ended or `close` is called.
 * @returns {{close: () => void}}
 */
export function follow(jobId, { after = 0, onEvent, onEnd }) {
  let source = null;
  let timer = null;
  let last = after;
  const open = () => {
    source = new EventSource(`${jobPath(jobId)}/events?after=${last}`);
    source.addEventListener("message", (message) => {
      const event = JSON.parse(message.data);
      if (event.id <= last) return;
      last = event.id;
      onEvent(event);
    });
    source.addEventListener("end", (message) => {
      source.close();
      onEnd(JSON.parse(message.data).state, last);
    });
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return;
      clearTimeout(timer);
      timer = setTimeout(open, RETRY_MS);
    });
  };
  open();
  return {
    close() {
      clearTimeout(timer);
      source.close();
    },
  };
}
