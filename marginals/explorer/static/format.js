/** Numbers, shares and evidence as text. */

/**
 * @typedef {import("./types.js").Axis} Axis
 * @typedef {import("./types.js").Cell} Cell
 */

/** @param {number} x @returns {string} four digits, without needless zeros */
export function numberText(x) {
  if (!Number.isFinite(x)) return "–";
  if (Math.abs(x) >= 1e4 && Math.abs(x) < 1e15) return String(Math.round(x));
  return String(Number(x.toPrecision(4))).replace("-", "−");
}

/** @param {Axis} axis @param {number} x @returns {string} a value of a column */
export function valueText(axis, x) {
  if (axis.family === "time") return timeText(axis, x);
  if (axis.family === "span") return spanText(x);
  if (axis.listed) {
    const at = nearest(axis.places, x);
    return axis.labels[at];
  }
  if (axis.step !== null && axis.step !== undefined) {
    return String(Number(x.toFixed(decimals(axis.step)))).replace("-", "−");
  }
  return numberText(x);
}

/** @param {number} step */
function decimals(step) {
  for (let d = 0; d < 12; d++) if (Math.abs(step * 10 ** d - Math.round(step * 10 ** d)) < 1e-6) return d;
  return 12;
}

/** @param {Axis} axis @param {number} ms */
function timeText(axis, ms) {
  const text = new Date(ms).toISOString();
  const span = axis.places[axis.places.length - 1] - axis.places[0];
  if (span > 40 * 86400e3) return text.slice(0, 10);
  return text.slice(0, span > 2 * 3600e3 ? 16 : 19).replace("T", " ");
}

/** @param {number} seconds */
function spanText(seconds) {
  const a = Math.abs(seconds);
  if (a >= 2 * 86400) return `${numberText(seconds / 86400)} d`;
  if (a >= 7200) return `${numberText(seconds / 3600)} h`;
  if (a >= 120) return `${numberText(seconds / 60)} min`;
  return `${numberText(seconds)} s`;
}

/** @param {number} share @returns {string} a probability in percent */
export function shareText(share) {
  const percent = 100 * share;
  if (percent === 0) return "0 %";
  if (percent < 0.001) return "<0.001 %";
  if (percent > 99.9 && percent < 100) return ">99.9 %";
  return `${percent >= 10 ? percent.toFixed(1) : String(Number(percent.toPrecision(2)))} %`;
}

/** @param {number} log natural logarithm @returns {string} */
export function expText(log) {
  if (log > -27 && log < 27) return String(Number(Math.exp(log).toPrecision(4)));
  const ten = log / Math.LN10;
  const whole = Math.floor(ten);
  return `${(10 ** (ten - whole)).toFixed(2)}·10^${whole}`;
}

/** @param {number[]} sorted @param {number} x @returns {number} the place of the nearest number */
export function nearest(sorted, x) {
  let best = 0;
  for (let i = 1; i < sorted.length; i++) {
    if (Math.abs(sorted[i] - x) < Math.abs(sorted[best] - x)) best = i;
  }
  return best;
}

/** @param {Axis} axis @param {number | string} value */
export function pageValueText(axis, value) {
  return typeof value === "string" ? value : valueText(axis, value);
}

/** @param {Axis} axis @param {Cell} cell @returns {string} evidence on a column */
export function cellText(axis, cell) {
  const name = axis.id;
  if (cell.is === "value") return `${name} = ${pageValueText(axis, cell.value)}`;
  if (cell.is === "set") {
    return `${name} ∈ {${cell.values.map((v) => pageValueText(axis, v)).join(", ")}}`;
  }
  if (cell.is === "soft") {
    const parts = cell.weights.map((w, i) => [w, axis.labels[i]]).filter((p) => Number(p[0]) > 0.0005);
    return `${name} ~ ${parts.map((p) => `${p[1]} ${shareText(Number(p[0]))}`).join(", ")}`;
  }
  if (cell.low === null) return `${name} ≤ ${valueText(axis, Number(cell.high))}`;
  if (cell.high === null) return `${name} ≥ ${valueText(axis, cell.low)}`;
  return `${valueText(axis, cell.low)} ≤ ${name} ≤ ${valueText(axis, cell.high)}`;
}

/** @param {Axis} axis @param {import("./types.js").Monitor} monitor @returns {string} */
export function summaryText(axis, monitor) {
  if (monitor.q.length && axis.family !== "category") {
    const [low, middle, high] = monitor.q.map((q) => valueText(axis, q));
    return `median ${middle} · 90 % ${low} – ${high}`;
  }
  const best = monitor.m.indexOf(Math.max(...monitor.m));
  return `most likely ${axis.labels[best]} · ${shareText(monitor.m[best])}`;
}

/** @param {number} low @param {number} high @param {number} count @returns {number[]} round numbers */
export function ticks(low, high, count) {
  const rough = (high - low) / count;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough) ?? 10 * power;
  const out = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) {
    out.push(Math.abs(t) < 1e-9 * step ? 0 : t);
  }
  return out;
}

/** @param {Axis} axis @param {number} count @returns {{at: number, text: string}[]} */
export function axisTicks(axis, count) {
  const low = axis.places[0];
  const high = axis.places[axis.places.length - 1];
  if (axis.family === "number") {
    return ticks(low, high, count).map((at) => ({ at, text: numberText(at) }));
  }
  const out = [];
  for (let i = 0; i < count; i++) {
    const at = low + ((high - low) * (i + 0.5)) / count;
    out.push({ at, text: valueText(axis, at) });
  }
  return out;
}
