// How strongly each parameter goes together with reward and with KL, from ranks alone: no model is fitted, a few wild
// values change little, and the level that chance reaches by itself is known.

import { KL } from "./space.js";

export const FEWEST = 8; // with fewer trials chance alone reaches almost any level

/** Ranks from 1, ties sharing the mean of theirs. */
export function ranks(values) {
  const order = values.map((_, at) => at).sort((a, b) => values[a] - values[b]);
  const found = new Array(values.length);
  for (let from = 0; from < order.length;) {
    let to = from;
    while (to < order.length && values[order[to]] === values[order[from]]) to += 1;
    for (let at = from; at < to; at += 1) found[order[at]] = (from + to + 1) / 2;
    from = to;
  }
  return found;
}

/**
 * Spearman's rank correlation for numbers; for choices the correlation ratio of the ranks, which has no sign.
 * @returns {{strength: number, signed: boolean, sure: boolean, trials: number} | null} null when it cannot be said;
 *   `sure` when chance reaches this strength in about one of twenty searches at most
 */
export function association(settings, results) {
  const n = settings.length;
  if (n < FEWEST || new Set(settings).size < 2 || new Set(results).size < 2) return null;
  const y = ranks(results);
  const mean = (n + 1) / 2;
  const spread = (values) => values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const signed = settings.every((value) => typeof value === "number");
  let strength;
  let freedom = 1;
  if (signed) {
    const x = ranks(settings);
    strength =
      x.reduce((sum, value, at) => sum + (value - mean) * (y[at] - mean), 0) / Math.sqrt(spread(x) * spread(y));
  } else {
    const groups = Map.groupBy(y.keys(), (at) => String(settings[at]));
    freedom = groups.size - 1;
    if (freedom > n / 4) return null; // almost every trial its own choice explains everything and says nothing
    const between = [...groups.values()].map((at) => at.reduce((sum, i) => sum + y[i] - mean, 0) ** 2 / at.length);
    strength = Math.sqrt(between.reduce((sum, part) => sum + part, 0) / spread(y));
  }
  // (n - 1) strength² is nearly chi-squared with this many degrees of freedom when nothing goes together.
  const chance = (freedom + 2 * Math.sqrt(2 * freedom)) / (n - 1);
  return { strength, signed, sure: strength ** 2 > chance, trials: n };
}

/** A row for each searched parameter, the strongest first. */
export function influenceRows(data) {
  const trials = data.list;
  const paths = [...new Set(trials.flatMap((trial) => Object.keys(trial.params)))];
  const about = (path, read) => {
    const usable = (trial) =>
      trial.params[path] !== undefined && trial.params[path] !== null && Number.isFinite(read(trial));
    const known = trials.filter(usable);
    return association(
      known.map((trial) => trial.params[path]),
      known.map(read),
    );
  };
  const rows = paths.map((path) => ({
    path,
    reward: about(path, (trial) => trial.value),
    kl: about(path, (trial) => (trial.state === "running" ? NaN : trial.metrics[KL])),
  }));
  const strongest = ({ reward, kl }) => Math.max(Math.abs(reward?.strength ?? 0), Math.abs(kl?.strength ?? 0));
  return rows.filter(({ reward, kl }) => reward || kl).sort((a, b) => strongest(b) - strongest(a));
}
