// The REST API: one function for each use, and what to say when it does not answer.

/** An answer that is an error, with what to do about it. */
export class ApiError extends Error {
  constructor(status, message, hint = "") {
    super(message);
    this.status = status;
    this.hint = hint;
  }

  /** Whether the service is away, as opposed to refusing. */
  get away() {
    return this.status === 0 || this.status >= 502;
  }
}

let report = () => {};

/** Calls `listener(isThere)` after each request that reached the service or did not. */
export function onConnection(listener) {
  report = listener;
}

async function call(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    report(false);
    throw new ApiError(0, "the service does not answer.", "Is it running? Start it with: autotune serve");
  }
  const failed = answer.ok ? null : await problem(answer);
  report(!failed?.away);
  if (failed) throw failed;
  return answer.json();
}

async function problem(answer) {
  try {
    const body = await answer.json();
    return new ApiError(answer.status, body.detail, body.hint);
  } catch {
    return new ApiError(answer.status, `the service answered ${answer.status} ${answer.statusText}.`);
  }
}

/** The address of a job, whatever its name contains. */
export function jobPath(id) {
  return `/v1/jobs/${encodeURIComponent(id)}`;
}

function query(values) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") found.append(name, each);
    }
  }
  return found.toString();
}

export const api = {
  jobs: (state, cursor, signal) => call(`/v1/jobs?${query({ state, cursor, limit: 100 })}`, { signal }),
  job: (id, signal) => call(jobPath(id), { signal }),
  space: (id, signal) => call(`${jobPath(id)}/space`, { signal }),
  trials: (id, options, signal) => call(`${jobPath(id)}/trials?${query({ limit: 500, ...options })}`, { signal }),
  trial: (id, number, stage, signal) => call(`${jobPath(id)}/trials/${number}?${query({ stage })}`, { signal }),
  curves: (id, options, signal) => call(`${jobPath(id)}/curves?${query(options)}`, { signal }),
  pause: (id) => call(`${jobPath(id)}/pause`, { method: "POST" }),
  resume: (id) => call(`${jobPath(id)}/resume`, { method: "POST" }),
  stop: (id) => call(`${jobPath(id)}/stop`, { method: "POST" }),
  cancel: (id) => call(`${jobPath(id)}/cancel`, { method: "POST" }),
  enqueue: (id, params) =>
    call(`${jobPath(id)}/trials`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ params }),
    }),
};
