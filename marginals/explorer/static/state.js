/** What the page shows: evidence with its history, the target, and the order of columns. */

/**
 * @typedef {import("./types.js").Evidence} Evidence
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Saved} Saved
 * @typedef {import("./types.js").Axis} Axis
 */

const MOST_UNDO = 200;

export class State {
  /** @param {Axis[]} axes */
  constructor(axes) {
    this.axes = axes;
    this.byId = new Map(axes.map((axis) => [axis.id, axis]));
    /** @type {Evidence} committed: what undo goes back through */
    this.evidence = {};
    /** @type {Evidence[]} */
    this.past = [];
    /** @type {Evidence[]} */
    this.future = [];
    /** @type {string | null} */
    this.target = null;
    /** @type {"monitors" | "pairs" | "rows"} */
    this.view = "monitors";
    /** @type {string[]} */
    this.pair = axes.slice(0, 2).map((axis) => axis.id);
    /** @type {Set<string>} */
    this.pins = new Set();
    /** @type {Set<string>} */
    this.hidden = new Set();
    this.order = axes.map((axis) => axis.id);
    this.sort = "table";
    this.against = "previous";
  }

  /** @param {Evidence} next @returns {boolean} whether anything changed */
  commit(next) {
    if (JSON.stringify(next) === JSON.stringify(this.evidence)) return false;
    this.past.push(this.evidence);
    if (this.past.length > MOST_UNDO) this.past.shift();
    this.future = [];
    this.evidence = next;
    return true;
  }

  /** Take the last change back without a way to redo it: it could not be applied. */
  reject() {
    this.evidence = this.past.pop() ?? {};
  }

  /** @returns {boolean} */
  undo() {
    const last = this.past.pop();
    if (!last) return false;
    this.future.push(this.evidence);
    this.evidence = last;
    return true;
  }

  /** @returns {boolean} */
  redo() {
    const next = this.future.pop();
    if (!next) return false;
    this.past.push(this.evidence);
    this.evidence = next;
    return true;
  }

  /** @param {string} id @param {Cell | null} cell @returns {Evidence} the evidence with one change */
  changed(id, cell) {
    const { [id]: _, ...rest } = this.evidence;
    return cell === null ? rest : { ...this.evidence, [id]: cell };
  }

  /** @returns {Saved} what the address holds; defaults are left out */
  saved() {
    /** @type {Saved} */
    const out = {};
    if (Object.keys(this.evidence).length) out.e = this.evidence;
    if (this.target) out.target = this.target;
    if (this.view !== "monitors") out.view = this.view;
    if (this.view === "pairs") out.pair = this.pair;
    if (this.pins.size) out.pins = [...this.pins];
    if (this.hidden.size) out.hidden = [...this.hidden];
    if (this.sort === "mine") out.order = this.order;
    if (this.sort !== "table") out.sort = this.sort;
    if (this.against !== "previous") out.against = this.against;
    return out;
  }

  /** @param {unknown} saved read from an address, and so perhaps anything */
  restore(saved) {
    const from = /** @type {Saved} */ (saved && typeof saved === "object" ? saved : {});
    const known = (/** @type {unknown} */ id) => typeof id === "string" && this.byId.has(id);
    /** @param {unknown} list @returns {string[]} */
    const ids = (list) => (Array.isArray(list) ? list.filter(known) : []);
    const entries = from.e && typeof from.e === "object" ? Object.entries(from.e) : [];
    this.commit(Object.fromEntries(entries.filter(([id]) => known(id))));
    this.target = known(from.target) ? /** @type {string} */ (from.target) : null;
    this.view = from.view === "pairs" || from.view === "rows" ? from.view : "monitors";
    const pair = ids(from.pair);
    if (pair.length === 2) this.pair = pair;
    this.pins = new Set(ids(from.pins));
    this.hidden = new Set(ids(from.hidden));
    const order = ids(from.order);
    if (order.length) this.order = [...order, ...this.order.filter((id) => !order.includes(id))];
    this.sort = ["table", "name", "changed", "target", "mine"].includes(from.sort ?? "") ? String(from.sort) : "table";
    this.against = from.against === "none" ? "none" : "previous";
  }
}

/** @returns {unknown} what the address of the page holds */
export function readAddress() {
  try {
    return JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}");
  } catch {
    return {};
  }
}

/** @param {Saved} saved */
export function writeAddress(saved) {
  const text = Object.keys(saved).length ? `#${encodeURIComponent(JSON.stringify(saved))}` : "";
  history.replaceState(null, "", location.pathname + location.search + text);
}
