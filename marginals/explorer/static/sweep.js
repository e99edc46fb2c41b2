/** All monitors for every cell of one column: evidence on it is a weighted mean over its cells. */

import { holds } from "./category_rows.js";

/**
 * @typedef {import("./types.js").Axis} Axis
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").EvidenceFacts} EvidenceFacts
 * @typedef {import("./types.js").Monitor} Monitor
 * @typedef {import("./types.js").RangeCell} RangeCell
 *
 * @typedef {object} SweepReply As `sweep.py` writes it.
 * @property {number[]} ends Of the cells, one more than there are; atoms follow.
 * @property {(number | null)[]} log Log masses of cells and atoms together with the other evidence.
 * @property {(number | null)[]} at Log density or mass of a value in each.
 * @property {[boolean, boolean]} density Whether the other evidence, and a value, have a density.
 * @property {Record<string, string>} columns Masses of bins, atoms and both sides, as float32.
 *
 * @typedef {{columns: Record<string, Monitor>, evidence: EvidenceFacts}} Swept
 * @typedef {{weights: Map<number, number>, log: number, density: boolean}} Weighted
 */

const LEVELS = [0.05, 0.5, 0.95];

export class Sweep {
  /** @param {Axis} moved @param {Map<string, Axis>} axes @param {SweepReply} reply */
  constructor(moved, axes, reply) {
    this.moved = moved;
    this.reply = reply;
    this.masses = reply.log.map((log) => (log === null ? 0 : Math.exp(log)));
    const known = Object.entries(reply.columns).filter(([id]) => axes.has(id));
    this.columns = known.map(([id, text]) => ({ axis: /** @type {Axis} */ (axes.get(id)), table: floats(text) }));
  }

  /** @param {Cell} cell @returns {Swept | null} monitors given evidence on the column, null if it cannot happen */
  given(cell) {
    const found = this.weighted(cell);
    if (!found) return null;
    const { weights, log, density } = found;
    const columns = Object.fromEntries(this.columns.map(({ axis, table }) => [axis.id, monitor(axis, table, weights, this.masses.length)]));
    return { columns, evidence: { log, density, error: 0, rough: true } };
  }

  /** @param {Cell} cell @returns {Weighted | null} */
  weighted(cell) {
    const { moved, reply } = this;
    if (cell.is === "value" && moved.kind === "curve") return this.value(Number(cell.value));
    const shares = cell.is === "soft" ? cell.weights : this.masses.map((mass, row) => mass * this.share(cell, row));
    const total = shares.reduce((a, b) => a + b, 0);
    if (!(total > 0)) return null;
    const weights = new Map(shares.map((share, row) => /** @type {[number, number]} */ ([row, share / total])).filter((pair) => pair[1] > 0));
    const all = cell.is === "soft" ? this.masses.reduce((a, b) => a + b, 0) : total;
    return { weights, log: Math.log(all), density: reply.density[0] };
  }

  /** @param {Cell} cell @param {number} row @returns {number} how much of a row evidence holds */
  share(cell, row) {
    const { moved, reply } = this;
    const cells = reply.ends.length - 1;
    if (moved.kind === "bars") return Number(holds(moved, cell, row));
    if (cell.is !== "range") return 0;
    const half = (moved.step ?? 0) / 2; // both ends belong to the range
    const low = (cell.low ?? -Infinity) - half;
    const high = (cell.high ?? Infinity) + half;
    if (row >= cells) return Number(low <= moved.atoms[row - cells] && moved.atoms[row - cells] <= high);
    const [from, to] = [reply.ends[row], reply.ends[row + 1]];
    return Math.max(0, Math.min(high, to) - Math.max(low, from)) / (to - from);
  }

  /** @param {number} value of a curve @returns {Weighted | null} between the two nearest middles, or at an atom */
  value(value) {
    const { moved, reply } = this;
    const cells = reply.ends.length - 1;
    const atom = moved.atoms.indexOf(value);
    if (atom >= 0) return this.between(cells + atom, cells + atom, 0, reply.density[0]);
    const middle = (/** @type {number} */ row) => (reply.ends[row] + reply.ends[row + 1]) / 2;
    let row = 0;
    while (row < cells - 2 && middle(row + 1) <= value) row += 1;
    const next = Math.min(row + 1, cells - 1);
    const share = next > row ? (value - middle(row)) / (middle(next) - middle(row)) : 0;
    return this.between(row, next, Math.min(1, Math.max(0, share)), reply.density[0] || reply.density[1]);
  }

  /** @param {number} row @param {number} next @param {number} share of the next row @param {boolean} density @returns {Weighted | null} */
  between(row, next, share, density) {
    const [a, b] = [this.reply.at[row], this.reply.at[next]];
    if (a === null || b === null) return null;
    const weights = new Map([[row, 1 - share]]);
    weights.set(next, (weights.get(next) ?? 0) + (next === row ? 0 : share));
    return { weights, log: (1 - share) * a + share * b, density };
  }
}

/** @param {string} text base64 @returns {Float32Array} */
function floats(text) {
  return new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

/** @param {Axis} axis @param {Float32Array} table @param {Map<number, number>} weights of the rows @param {number} rows @returns {Monitor} */
function monitor(axis, table, weights, rows) {
  const width = table.length / rows;
  const mean = new Array(width).fill(0);
  for (const [row, weight] of weights) {
    for (let i = 0, at = row * width; i < width; i++, at++) mean[i] += weight * table[at];
  }
  const bins = width - axis.atoms.length - 2;
  const found = { m: mean.slice(0, bins), a: mean.slice(bins, width - 2), b: mean.slice(width - 2) };
  return { ...found, q: axis.ordered ? LEVELS.map((level) => quantile(axis, found, level)) : [] };
}

/** @param {Axis} axis @param {{m: number[], a: number[], b: number[]}} masses @param {number} level @returns {number} */
function quantile({ kind, places, atoms, step }, { m, a, b }, level) {
  let sum = b[0];
  let atom = 0;
  for (let i = 0; i < m.length; i++) {
    for (; kind === "curve" && atom < atoms.length && atoms[atom] <= places[i]; atom++) {
      sum += a[atom];
      if (sum >= level) return atoms[atom];
    }
    sum += m[i];
    if (sum < level || !(m[i] > 0)) continue;
    if (kind === "bars") return places[i];
    const value = places[i + 1] - ((sum - level) / m[i]) * (places[i + 1] - places[i]);
    if (!step) return Math.max(places[i], value);
    const first = places[0] + step / 2;
    return Number((first + Math.round((value - first) / step) * step).toPrecision(12));
  }
  return places[places.length - 1];
}
