/** The order of the monitors: which columns are shown, and where. */

import { distance } from "./monitor.js";

/**
 * @typedef {import("./types.js").Monitor} Monitor
 * @typedef {import("./state.js").State} State
 *
 * @typedef {object} Ranked What orders depend on.
 * @property {Record<string, Monitor>} now
 * @property {Record<string, Monitor>} before
 * @property {Map<string, number>} information of each column about the target
 */

/** @param {State} state @param {Ranked} ranked @returns {string[]} all columns in their order */
export function ordered(state, { now, before, information }) {
  const ids = state.axes.map((axis) => axis.id);
  if (state.sort === "mine") return [...state.order];
  if (state.sort === "name") return ids.sort((a, b) => a.localeCompare(b));
  /** @param {(id: string) => number} by */
  const descending = (by) => {
    const ranks = ids.map((id, i) => ({ id, i, by: by(id) }));
    return ranks.sort((a, b) => b.by - a.by || a.i - b.i).map((rank) => rank.id);
  };
  if (state.sort === "changed") return descending((id) => (state.cell(id) ? 2 : distance(now[id], before[id])));
  if (state.sort === "target") return descending((id) => (id === state.target ? Infinity : (information.get(id) ?? -1)));
  return ids;
}

/** @param {State} state @param {string[]} order @param {string} search @returns {string[]} the columns shown, pinned ones first */
export function shownOf(state, order, search) {
  const found = order.filter((id) => !state.hidden.has(id) && id.toLowerCase().includes(search));
  return [...found.filter((id) => state.pins.has(id)), ...found.filter((id) => !state.pins.has(id))];
}

/** @param {string[]} order @param {string} id @param {string} before @returns {string[]} */
export function movedBefore(order, id, before) {
  const out = order.filter((other) => other !== id);
  out.splice(out.indexOf(before), 0, id);
  return out;
}

/** @param {string[]} order @param {string} id @param {number} by @returns {string[]} */
export function stepped(order, id, by) {
  const out = [...order];
  const at = out.indexOf(id);
  const to = Math.min(out.length - 1, Math.max(0, at + by));
  out.splice(to, 0, ...out.splice(at, 1));
  return out;
}
