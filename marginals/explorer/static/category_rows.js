/** The picture of a category: a bar for each of its likeliest levels. */

import { shareText } from "./format.js";
import { setAttributes, setText, shape } from "./svg.js";

/**
 * @typedef {import("./types.js").Axis} Axis
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Monitor} Monitor
 * @typedef {import("./monitor.js").Shown} Shown
 */

const ROW = 19;
const LETTER = 6.2; // its width
const BAR_RIGHT = 244;
const SHARE_RIGHT = 292;
const MOST_ROWS = 12;
const MOST_LETTERS = 15;

export class CategoryRows {
  /** @param {Axis} axis @param {Monitor} prior */
  constructor(axis, prior) {
    this.axis = axis;
    this.rows = likeliest(prior.m, () => false);
    this.more = axis.labels.length - this.rows.length;
    this.height = (this.rows.length + (this.more ? 1 : 0)) * ROW + 8;
    const longest = Math.max(...axis.labels.map((label) => Math.min(label.length, MOST_LETTERS)), this.more ? 7 : 0);
    this.left = Math.round(14 + Math.max(3, longest) * LETTER);
    this.bars = shape("g", { class: "mx-bars" });
    this.rest = shape("g", {});
    this.scale = 1;
  }

  /** @param {Shown} shown */
  draw({ now, before, cell, data, drag }) {
    const { axis, bars } = this;
    const masses = cell?.is === "soft" ? cell.weights : now.m;
    const chosen = (/** @type {number} */ i) => cell !== null && (cell.is === "soft" ? cell.weights[i] > 0 : holds(axis, cell, i));
    // Levels keep their places while the pointer may be on them.
    if (this.more && !drag) this.replace(likeliest(masses, chosen));
    const top = Math.max(0.05, ...masses, ...(before ? before.m : []));
    const scale = (BAR_RIGHT - this.left) / top;
    if (!bars.childElementCount) bars.append(...this.rows.map((i, place) => this.row(i, place)));
    this.rows.forEach((i, place) => {
      const parts = bars.children[place].children;
      const y = 4 + place * ROW;
      setAttributes(bars.children[place], { class: cell === null ? "mx-row" : chosen(i) ? "mx-row mx-on" : "mx-row mx-off" });
      setAttributes(parts[2], { width: Math.max(0.5, masses[i] * scale).toFixed(1) });
      setAttributes(parts[3], { d: before ? `M${(this.left + before.m[i] * scale).toFixed(1)},${y + 1}v${ROW - 4}` : "" });
      const share = data && data.n > 0 ? Math.min(1, data.m[i] / top) : null;
      setAttributes(parts[4], { d: share === null ? "" : dot(this.left + share * (BAR_RIGHT - this.left), y + ROW / 2 - 1) });
      setText(parts[5], shareText(masses[i]));
      setAttributes(parts[6], { x: (this.left + masses[i] * scale - 3).toFixed(1) });
    });
    if (this.more) {
      const shown = new Set(this.rows);
      const rest = masses.reduce((sum, mass, i) => (shown.has(i) ? sum : sum + mass), 0);
      const y = 4 + this.rows.length * ROW + 12.5;
      this.rest.replaceChildren(
        shape("text", { x: this.left - 6, y, "text-anchor": "end" }, `${this.more} more`),
        shape("text", { x: SHARE_RIGHT, y, "text-anchor": "end" }, shareText(rest)),
      );
    }
    this.scale = scale;
  }

  /** @param {number[]} rows */
  replace(rows) {
    if (rows.every((i, place) => this.rows[place] === i)) return;
    this.rows = rows;
    this.bars.replaceChildren();
  }

  /** @param {number} i @param {number} place @returns {SVGGElement} background, label, bar, before, data, share, handle */
  row(i, place) {
    const y = 4 + place * ROW;
    const label = this.axis.labels[i];
    const text = label.length > MOST_LETTERS ? `${label.slice(0, MOST_LETTERS - 2)}…` : label;
    return shape(
      "g",
      { "data-bar": i },
      shape("rect", { x: 4, y, width: 292, height: ROW - 2, rx: 3, class: "mx-back" }),
      shape("text", { x: this.left - 6, y: y + 12.5, "text-anchor": "end" }, text, shape("title", {}, label)),
      shape("rect", { x: this.left, y: y + 2, height: ROW - 6, width: 0, rx: 1.5, class: "mx-bar" }),
      shape("path", { class: "mx-before" }),
      shape("path", { class: "mx-data mx-dots" }),
      shape("text", { x: SHARE_RIGHT, y: y + 12.5, "text-anchor": "end", class: "mx-share" }),
      shape("rect", { y: y + 1, width: 6, height: ROW - 4, rx: 2, class: "mx-grip", "data-grip": i }),
    );
  }
}

/** @param {number[]} masses @param {(i: number) => boolean} chosen @returns {number[]} the places of chosen and likely levels, in their order */
function likeliest(masses, chosen) {
  const order = masses.map((_, i) => i);
  if (order.length > MOST_ROWS) order.sort((a, b) => Number(chosen(b)) - Number(chosen(a)) || masses[b] - masses[a] || a - b);
  return order.slice(0, MOST_ROWS).sort((a, b) => a - b);
}

/** @param {number} x @param {number} y @returns {string} */
export function dot(x, y) {
  return `M${(x - 2).toFixed(1)},${y.toFixed(1)}a2,2 0 1,0 4,0a2,2 0 1,0 -4,0`;
}

/** @param {Axis} axis @param {Cell} cell @param {number} bar @returns {boolean} whether evidence holds a bar's value */
export function holds(axis, cell, bar) {
  const own = [axis.labels[bar], axis.places[bar]];
  if (cell.is === "value") return own.includes(cell.value);
  if (cell.is === "set") return cell.values.some((v) => own.includes(v));
  if (cell.is === "soft") return cell.weights[bar] > 0;
  const at = axis.places[bar];
  return (cell.low === null || at >= cell.low - 1e-9) && (cell.high === null || at <= cell.high + 1e-9);
}
