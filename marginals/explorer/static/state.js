/** What the page shows: evidence with its history, the target, and the order of columns. */

/**
 * @typedef {import("./types.js").Evidence} Evidence
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Saved} Saved
 * @typedef {import("./types.js").Axis} Axis
 *
 * @typedef {{past: Evidence[], now: Evidence, future: Evidence[]}} History
 *
 * @typedef {object} Address Where the state is kept.
 * @property {() => unknown} read
 * @property {(saved: Saved) => void} write
 * @property {() => unknown} kept The history of the page before it was loaded again.
 * @property {(history: History) => void} keep
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

  /** @param {string} id @param {Evidence} [evidence] @returns {Cell | null} the evidence on a column */
  cell(id, evidence = this.evidence) {
    return Object.hasOwn(evidence, id) ? evidence[id] : null;
  }

  /** @returns {History} */
  history() {
    return { past: this.past, now: this.evidence, future: this.future };
  }

  /** Take a history over if it ends at the evidence of now. @param {unknown} kept */
  recall(kept) {
    const from = /** @type {Partial<History>} */ (kept && typeof kept === "object" ? kept : {});
    if (JSON.stringify(from.now) !== JSON.stringify(this.evidence)) return;
    const sound = (/** @type {unknown} */ list) => Array.isArray(list) && list.every((each) => each && typeof each === "object" && !this.unread(each).length);
    if (!sound(from.past) || !sound(from.future)) return;
    this.past = from.past ?? [];
    this.future = from.future ?? [];
  }

  /** @param {object} evidence @returns {string[]} the columns of which it cannot be read */
  unread(evidence) {
    return Object.entries(evidence).filter(([id, cell]) => !isCell(this.byId.get(id), cell)).map(([id]) => id);
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

  /** @param {unknown} saved read from an address, and so perhaps anything @returns {string[]} columns whose evidence cannot be read */
  restore(saved) {
    const from = /** @type {Saved} */ (saved && typeof saved === "object" ? saved : {});
    const known = (/** @type {unknown} */ id) => typeof id === "string" && this.byId.has(id);
    /** @param {unknown} list @returns {string[]} */
    const ids = (list) => (Array.isArray(list) ? list.filter(known) : []);
    const evidence = from.e && typeof from.e === "object" ? from.e : {};
    const ignored = this.unread(evidence);
    this.commit(Object.fromEntries(Object.entries(evidence).filter(([id]) => !ignored.includes(id))));
    this.target = known(from.target) ? /** @type {string} */ (from.target) : null;
    this.view = from.view === "rows" || (from.view === "pairs" && this.axes.length > 1) ? from.view : "monitors";
    const pair = ids(from.pair);
    if (pair.length === 2 && pair[0] !== pair[1]) this.pair = pair;
    this.pins = new Set(ids(from.pins));
    this.hidden = new Set(ids(from.hidden));
    const order = ids(from.order);
    if (order.length) this.order = [...order, ...this.order.filter((id) => !order.includes(id))];
    this.sort = ["table", "name", "changed", "target", "mine"].includes(from.sort ?? "") ? String(from.sort) : "table";
    this.against = from.against === "none" ? "none" : "previous";
    return ignored;
  }
}

/** @param {Axis | undefined} axis @param {any} cell @returns {boolean} whether a cell can be evidence on a column */
function isCell(axis, cell) {
  if (!axis || !cell || typeof cell !== "object") return false;
  const number = (/** @type {unknown} */ x) => typeof x === "number" && Number.isFinite(x);
  const value = (/** @type {unknown} */ x) => (typeof x === "string" ? axis.labels.includes(x) : number(x) && axis.family !== "category");
  const weight = (/** @type {unknown} */ x) => number(x) && Number(x) >= 0;
  if (cell.is === "value") return value(cell.value);
  if (cell.is === "set") return Array.isArray(cell.values) && cell.values.length > 0 && cell.values.every(value);
  if (cell.is === "soft") return Array.isArray(cell.weights) && cell.weights.length === axis.labels.length && cell.weights.every(weight);
  const ends = [cell.low, cell.high];
  return cell.is === "range" && axis.family !== "category" && ends.some(number) && ends.every((end) => end === null || number(end));
}

/** @returns {Address} the address of the page, and the history of its tab */
export function pageAddress() {
  const key = `marginals ${location.pathname}`;
  return {
    read: readAddress,
    write: writeAddress,
    kept: () => {
      try {
        return JSON.parse(sessionStorage.getItem(key) ?? "{}");
      } catch {
        return {};
      }
    },
    keep: (history) => {
      try {
        sessionStorage.setItem(key, JSON.stringify(history));
      } catch {
        // The storage is full or forbidden: undo then ends where the page was loaded.
      }
    },
  };
}

/** @returns {unknown} what the address of the page holds */
function readAddress() {
  try {
    return JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}");
  } catch {
    return {};
  }
}

/** @param {Saved} saved */
function writeAddress(saved) {
  const text = Object.keys(saved).length ? `#${encodeURIComponent(JSON.stringify(saved))}` : "";
  history.replaceState(null, "", location.pathname + location.search + text);
}
