// Numbers, times and names as people read them.

export const DASH = "–";

/** A number with four significant digits, or a dash. */
export function number(value, digits = 4) {
  if (typeof value !== "number" || !Number.isFinite(value)) return DASH;
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6)
    ? value.toExponential(digits - 2)
    : String(+value.toPrecision(digits));
}

/** A parameter's value. */
export function setting(value) {
  if (typeof value === "number") return number(value);
  return typeof value === "string" ? value : (JSON.stringify(value) ?? DASH);
}

/** Seconds as the two largest units. */
export function duration(seconds) {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) return DASH;
  const whole = Math.max(0, Math.round(seconds));
  const [d, h, m, s] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
    whole % 60,
  ];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  if (m) return `${m} min ${s} s`;
  return `${s} s`;
}

/** Seconds of a duration as space files write it (`24h`, `1h30m`), or null. */
export function parseDuration(text) {
  if (typeof text === "number") return text;
  const units = { s: 1, m: 60, h: 3600, d: 86400 };
  const parts = [...String(text ?? "").matchAll(/(\d+(?:\.\d+)?)\s*([smhd])/g)];
  return parts.length ? parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * units[unit], 0) : null;
}

/** A moment in the reader's own time zone. */
export function moment(epochSeconds, withDate = true) {
  if (typeof epochSeconds !== "number") return DASH;
  const time = new Date(epochSeconds * 1000);
  const options = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
  return withDate
    ? time.toLocaleString(undefined, { year: "numeric", month: "short", day: "2-digit", ...options })
    : time.toLocaleTimeString(undefined, options);
}

/** The last part of a parameter's path. */
export function shortName(path) {
  return path.slice(path.lastIndexOf(".") + 1);
}

/** Shortest names that tell the given paths apart. */
export function shortNames(paths) {
  const count = new Map();
  for (const path of paths) count.set(shortName(path), (count.get(shortName(path)) ?? 0) + 1);
  return new Map(paths.map((path) => [path, count.get(shortName(path)) > 1 ? path : shortName(path)]));
}

/** Text for plotly, which reads a little HTML in names and hover texts. */
export function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Text for plotly, broken into lines of about this many characters. */
export function wrapped(text, width = 60) {
  const lines = [""];
  for (const word of String(text).split(/\s+/)) {
    for (let at = 0; at < word.length; at += width) {
      const piece = word.slice(at, at + width);
      if (lines.at(-1) && lines.at(-1).length + piece.length >= width) lines.push("");
      lines[lines.length - 1] += (lines.at(-1) ? " " : "") + piece;
    }
  }
  return lines.map(plain).join("<br>");
}

/** Why a trial was ended, in one sentence; empty when it ended by itself. */
export function why(trial) {
  if (trial.reason) return `${trial.reason.pruner}: ${trial.reason.text}`;
  if (trial.error) return `${trial.error.kind}: ${trial.error.message}`;
  const broken = Object.entries(trial.violations ?? {}).filter(([, by]) => by === null || by > 0);
  return broken.map(([rule, by]) => `${rule} broken by ${number(by)}`).join("; ");
}
