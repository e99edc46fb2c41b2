/** Evidence by mouse, finger and keyboard on a monitor. */

import { holds } from "./category_rows.js";

/**
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Monitor} Monitor
 * @typedef {import("./monitor.js").MonitorCard} MonitorCard
 *
 * @typedef {object} GestureHooks
 * @property {() => Cell | null} cell The evidence on the column now.
 * @property {() => Monitor} now Its distribution given the others.
 * @property {(cell: Cell | null) => void} preview While dragging.
 * @property {(cell: Cell | null) => void} commit
 * @property {() => void} type Open the field to type evidence.
 */

const FAR = 4; // pixels that make a click a drag
const EDGE = 6; // pixels around an end of a range

/** @param {MonitorCard} card @param {GestureHooks} hooks */
export function listenForGestures(card, hooks) {
  if (card.categories) listenOnRows(card, hooks);
  else listenOnPlot(card, hooks);
  card.picture.addEventListener("keydown", (event) => onKey(card, hooks, event));
}

/** @param {MonitorCard} card @param {PointerEvent} event @returns {number} place in the picture */
function placeOf(card, event) {
  const box = card.picture.getBoundingClientRect();
  return ((event.clientX - box.left) / box.width) * card.picture.viewBox.baseVal.width;
}

/**
 * Follow a pointer from its press to its release.
 *
 * @param {MonitorCard} card
 * @param {PointerEvent} down
 * @param {(event: PointerEvent) => void} onMove after the pointer has gone some way
 * @param {(event: PointerEvent, moved: boolean) => void} onUp
 * @param {() => void} onCancel
 */
function follow(card, down, onMove, onUp, onCancel) {
  let moved = false;
  const picture = card.picture;
  picture.setPointerCapture(down.pointerId);
  /** @param {PointerEvent} event */
  const move = (event) => {
    moved ||= Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > FAR;
    if (moved) onMove(event);
  };
  /** @param {PointerEvent} event */
  const up = (event) => {
    stop();
    if (event.type === "pointerup") onUp(event, moved);
    else onCancel();
  };
  const stop = () => {
    picture.removeEventListener("pointermove", move);
    picture.removeEventListener("pointerup", up);
    picture.removeEventListener("pointercancel", up);
  };
  picture.addEventListener("pointermove", move);
  picture.addEventListener("pointerup", up);
  picture.addEventListener("pointercancel", up);
}

// Numbers and times ---------------------------------------------------------------------------

/** @param {MonitorCard} card @param {GestureHooks} hooks */
function listenOnPlot(card, hooks) {
  card.picture.addEventListener("pointerdown", (down) => {
    if (down.button !== 0) return;
    down.preventDefault();
    card.picture.focus({ preventScroll: true });
    const start = placeOf(card, down);
    const change = changeFrom(card, hooks.cell(), start);
    const before = hooks.cell();
    follow(
      card,
      down,
      (event) => hooks.preview(change(placeOf(card, event))),
      (event, moved) => hooks.commit(moved ? change(placeOf(card, event)) : clicked(card, before, start, event)),
      () => hooks.preview(before),
    );
  });
}

/**
 * What a drag from a place does: move an end or the whole of a range, move a value, or select.
 *
 * @param {MonitorCard} card
 * @param {Cell | null} cell
 * @param {number} start
 * @returns {(x: number) => Cell}
 */
function changeFrom(card, cell, start) {
  if (cell?.is === "range") {
    const [low, high] = card.rangeEnds(cell);
    if (cell.low !== null && Math.abs(start - low) < EDGE) return (x) => range(card, x, high, null, cell.high);
    if (cell.high !== null && Math.abs(start - high) < EDGE) return (x) => range(card, low, x, cell.low, null);
    if (start > low && start < high && cell.low !== null && cell.high !== null) {
      return (x) => range(card, low + x - start, high + x - start, null, null);
    }
  }
  if (cell?.is === "value" && typeof cell.value === "number" && Math.abs(start - card.x(cell.value)) < EDGE) {
    return (x) => ({ is: "value", value: card.valueAt(x) });
  }
  return (x) => range(card, start, x, null, null);
}

/**
 * @param {MonitorCard} card
 * @param {number} from a place in the picture
 * @param {number} to
 * @param {number | null} low kept instead of the value at `from`
 * @param {number | null} high kept instead of the value at `to`
 * @returns {Cell}
 */
function range(card, from, to, low, high) {
  const ends = [low ?? card.valueAt(from), high ?? card.valueAt(to)].sort((a, b) => a - b);
  if (ends[0] === ends[1]) return { is: "value", value: ends[0] };
  return { is: "range", low: ends[0], high: ends[1] };
}

/** @param {MonitorCard} card @param {Cell | null} cell @param {number} x @param {PointerEvent} event @returns {Cell | null} */
function clicked(card, cell, x, event) {
  const value = card.valueAt(x);
  if (card.axis.kind === "curve") return { is: "value", value };
  const bar = card.axis.places.indexOf(value);
  return toggled(card, cell, bar, event.shiftKey);
}

/** @param {MonitorCard} card @param {Cell | null} cell @param {number} bar @param {boolean} through @returns {Cell | null} */
function toggled(card, cell, bar, through) {
  const { axis } = card;
  const chosen = axis.labels.map((_, i) => cell !== null && cell.is !== "soft" && holds(axis, cell, i));
  if (through && chosen.includes(true)) {
    const first = chosen.indexOf(true);
    for (let i = Math.min(first, bar); i <= Math.max(first, bar); i++) chosen[i] = true;
  } else {
    chosen[bar] = !chosen[bar];
  }
  return chosenCell(card, chosen);
}

/** @param {MonitorCard} card @param {boolean[]} chosen @returns {Cell | null} */
function chosenCell(card, chosen) {
  const { axis } = card;
  const values = axis.labels.filter((_, i) => chosen[i]);
  if (!values.length || values.length === axis.labels.length) return null;
  return values.length === 1 ? { is: "value", value: values[0] } : { is: "set", values };
}

// Categories ----------------------------------------------------------------------------------

/** @param {MonitorCard} card @param {GestureHooks} hooks */
function listenOnRows(card, hooks) {
  card.picture.addEventListener("pointerdown", (down) => {
    const row = /** @type {Element | null} */ (down.target)?.closest("[data-bar]");
    if (!row || down.button !== 0) return;
    down.preventDefault();
    card.picture.focus({ preventScroll: true });
    const bar = Number(row.getAttribute("data-bar"));
    const grip = /** @type {Element} */ (down.target).hasAttribute("data-grip");
    const before = hooks.cell();
    const weights = before?.is === "soft" ? before.weights : hooks.now().m;
    const scale = card.categories?.scale ?? 1;
    const start = placeOf(card, down);
    /** @param {PointerEvent} event */
    const soft = (event) => softened(weights, bar, weights[bar] + (placeOf(card, event) - start) / scale);
    follow(
      card,
      down,
      (event) => grip && hooks.preview(soft(event)),
      (event, moved) => hooks.commit(moved && grip ? soft(event) : toggled(card, before, bar, event.shiftKey)),
      () => hooks.preview(before),
    );
  });
}

/** @param {number[]} weights @param {number} bar @param {number} share @returns {Cell} */
export function softened(weights, bar, share) {
  const total = weights.reduce((a, b) => a + b, 0);
  const own = Math.min(1, Math.max(0, share));
  const others = total - weights[bar];
  const out = weights.map((w, i) => {
    if (i === bar) return own;
    return others > 0 ? ((1 - own) * w) / others : (1 - own) / (weights.length - 1);
  });
  return { is: "soft", weights: out.map((w) => Number(w.toFixed(6))) };
}

// Keys ----------------------------------------------------------------------------------------

/** @param {MonitorCard} card @param {GestureHooks} hooks @param {KeyboardEvent} event */
function onKey(card, hooks, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 };
  const cell = hooks.cell();
  if (event.key === "Enter") hooks.type();
  else if (event.key === "Escape" || event.key === "Delete" || event.key === "Backspace") hooks.commit(null);
  else if (event.key in steps) {
    const by = steps[/** @type {keyof typeof steps} */ (event.key)];
    const down = card.categories && event.key.startsWith("Arrow") && /Up|Down/.test(event.key);
    hooks.commit(card.axis.kind === "bars" ? keyOnBars(card, hooks, cell, down ? -by : by, event.shiftKey) : keyOnCurve(card, hooks, cell, by, event.shiftKey));
  } else return;
  event.preventDefault();
}

/** @param {MonitorCard} card @param {GestureHooks} hooks @param {Cell | null} cell @param {number} by @param {boolean} shift @returns {Cell | null} */
function keyOnBars(card, hooks, cell, by, shift) {
  const { axis } = card;
  const chosen = axis.labels.map((_, i) => cell !== null && cell.is !== "soft" && holds(axis, cell, i));
  const count = axis.labels.length;
  const any = chosen.includes(true);
  const masses = hooks.now().m;
  const last = any ? (by > 0 ? chosen.lastIndexOf(true) : chosen.indexOf(true)) : masses.indexOf(Math.max(...masses));
  const next = any ? Math.min(count - 1, Math.max(0, last + Math.sign(by))) : last;
  if (shift && any) chosen[next] = true;
  else chosen.fill(false)[next] = true;
  return chosenCell(card, chosen);
}

/** @param {MonitorCard} card @param {GestureHooks} hooks @param {Cell | null} cell @param {number} by @param {boolean} shift @returns {Cell} */
function keyOnCurve(card, hooks, cell, by, shift) {
  const [bottom, top] = card.span();
  const step = by * Math.max(card.axis.step ?? 0, (top - bottom) / 100);
  const q = hooks.now().q;
  if (!cell || (cell.is !== "value" && cell.is !== "range")) {
    return shift ? { is: "range", low: card.snapped(q[0]), high: card.snapped(q[2]) } : { is: "value", value: card.snapped(q[1]) };
  }
  if (cell.is === "value") {
    const value = Number(cell.value);
    if (!shift) return { is: "value", value: card.snapped(value + step) };
    const ends = [value, card.snapped(value + step)].sort((a, b) => a - b);
    return { is: "range", low: ends[0], high: ends[1] };
  }
  const low = cell.low ?? bottom;
  const high = cell.high ?? top;
  if (!shift) return { is: "range", low: card.snapped(low + step), high: card.snapped(high + step) };
  return { is: "range", low, high: Math.max(low, card.snapped(high + step)) };
}
