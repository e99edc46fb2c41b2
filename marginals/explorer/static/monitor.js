/** One monitor: the distribution of a column now, the one before, the data, and the evidence on it. */

import { CategoryRows, dot, holds } from "./category_rows.js";
import { axisTicks, cellText, pageValueText, shareText, summaryText, valueText } from "./format.js";
import { element, iconButton, saveSvg, setAttributes, setText, shape } from "./svg.js";

/**
 * @typedef {import("./types.js").Axis} Axis
 * @typedef {import("./types.js").Monitor} Monitor
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Shares} Shares
 *
 * @typedef {object} Shown What a monitor shows at a time.
 * @property {Monitor} now Given the evidence on the other columns.
 * @property {Monitor | null} before
 * @property {Cell | null} cell
 * @property {Shares | null} data
 * @property {boolean} pinned
 * @property {boolean} target
 * @property {boolean} drag Whether a drag is under way.
 * @property {boolean} idle Whether there is no evidence at all.
 *
 * @typedef {object} CardHooks
 * @property {(axis: Axis) => void} onPin
 * @property {(axis: Axis) => void} onHide
 * @property {(axis: Axis) => void} onTarget
 * @property {(axis: Axis) => void} onType
 * @property {(axis: Axis) => void} onClear
 * @property {(moved: string) => void} onMove Put another column before this one.
 */

export const WIDTH = 300;
const HEIGHT = 106;
const LEFT = 10;
const RIGHT = 290;
const TOP = 8;
const BOTTOM = 82;

export class MonitorCard {
  /** @param {Axis} axis @param {Monitor} prior @param {CardHooks} hooks */
  constructor(axis, prior, hooks) {
    this.axis = axis;
    /** @type {Shown | null} */
    this.shown = null;
    this.dirty = true;
    this.visible = false;
    this.categories = axis.family === "category" ? new CategoryRows(axis, prior) : null;
    const height = this.categories?.height ?? HEIGHT;
    this.picture = shape("svg", {
      viewBox: `0 0 ${WIDTH} ${height}`,
      class: "mx-plot",
      tabindex: 0,
      role: "slider",
      "aria-roledescription": "monitor",
      "aria-valuemin": axis.places[0],
      "aria-valuemax": axis.places[axis.places.length - 1],
      "data-id": axis.id,
    });
    this.title = element("h3", { title: describe(axis), draggable: "true" }, axis.id);
    this.badge = element("span", { class: "mx-badge" });
    this.summary = element("p", { class: "mx-summary" });
    this.change = element("p", { class: "mx-change" });
    this.pin = iconButton("pin", `Pin ${axis.id}`, () => hooks.onPin(axis));
    this.target = iconButton("target", `Make ${axis.id} the target`, () => hooks.onTarget(axis));
    this.clear = iconButton("clear", `Mark ${axis.id} as unknown`, () => hooks.onClear(axis));
    const tools = element(
      "span",
      { class: "mx-tools" },
      this.clear,
      iconButton("type", `Type evidence on ${axis.id}`, () => hooks.onType(axis)),
      this.target,
      this.pin,
      iconButton("save", `Save the picture of ${axis.id} as SVG`, () => saveSvg(this.picture, axis.id)),
      iconButton("hide", `Hide ${axis.id}`, () => hooks.onHide(axis)),
    );
    this.node = element(
      "section",
      { class: "mx-card", role: "listitem", "aria-label": axis.id, "data-id": axis.id },
      element("header", {}, this.title, this.badge, tools),
      this.picture,
      this.summary,
      this.change,
    );
    this.range = shape("rect", { y: 2, height: BOTTOM - 2 });
    this.evidence = shape("g", { class: "mx-evidence" }, this.range);
    this.bars = shape("g", { class: "mx-bars" });
    this.before = shape("path", { class: "mx-before" });
    this.fill = shape("path", { class: "mx-fill" });
    this.line = shape("path", { class: "mx-line" });
    this.data = shape("path", { class: "mx-data" });
    this.atoms = shape("g", { class: "mx-atoms" });
    this.between = shape("line", { y1: BOTTOM + 5.5, y2: BOTTOM + 5.5 });
    this.median = shape("circle", { cy: BOTTOM + 5.5, r: 2.6 });
    this.interval = shape("g", { class: "mx-interval" }, this.between, this.median);
    this.ends = [0, 1].map(() => shape("line", { y1: 2, y2: BOTTOM }));
    this.knob = shape("circle", { cy: 5, r: 3.5 });
    this.handles = shape("g", { class: "mx-handles" }, ...this.ends, this.knob);
    this.built = false;
    this.listenForMoves(hooks);
  }

  /** Put the parts into the picture, once it is in sight. */
  build() {
    this.built = true;
    const { axis, picture } = this;
    if (this.categories) {
      picture.append(this.categories.bars, this.categories.rest);
      return;
    }
    const base = shape("line", { x1: LEFT, x2: RIGHT, y1: BOTTOM, y2: BOTTOM, class: "mx-base" });
    const marks = shape("g", { class: "mx-ticks" });
    for (const tick of axisTicks(axis, axis.family === "number" ? 5 : 3)) {
      const x = this.x(tick.at);
      if (x < LEFT - 1 || x > RIGHT + 1) continue;
      marks.append(
        shape("line", { x1: x, x2: x, y1: BOTTOM, y2: BOTTOM + 3 }),
        shape("text", { x, y: BOTTOM + 20, "text-anchor": x < 24 ? "start" : x > 276 ? "end" : "middle" }, tick.text),
      );
    }
    picture.append(this.evidence, this.fill, this.bars, this.before, this.line, this.atoms, this.data, base, marks, this.interval, this.handles);
  }

  /** @returns {[number, number]} the ends of the axis in the column's numbers */
  span() {
    const { places, kind, step } = this.axis;
    const low = places[0];
    const high = places[places.length - 1];
    if (kind === "curve") return [low, high];
    const half = (step ?? (high - low) / Math.max(1, places.length - 1)) / 2 || 0.5;
    return [low - half, high + half];
  }

  /** @param {number} value @returns {number} its place in the picture */
  x(value) {
    const [low, high] = this.span();
    return LEFT + ((value - low) / (high - low)) * (RIGHT - LEFT);
  }

  /** @param {number} x a place in the picture @returns {number} the value there */
  valueAt(x) {
    const [low, high] = this.span();
    const share = Math.min(1, Math.max(0, (x - LEFT) / (RIGHT - LEFT)));
    return this.snapped(low + share * (high - low));
  }

  /** @param {number} value @returns {number} the nearest value that the column can have */
  snapped(value) {
    const { axis } = this;
    if (axis.kind === "bars") return axis.places[nearestPlace(axis.places, value)];
    if (axis.step) {
      const first = axis.places[0] + axis.step / 2;
      const exact = first + Math.round((value - first) / axis.step) * axis.step;
      return Number(exact.toPrecision(12));
    }
    const [low, high] = this.span();
    const digits = Math.max(0, 3 - Math.floor(Math.log10(high - low)));
    return axis.family === "number" ? Number(value.toFixed(Math.min(digits, 15))) : Math.round(value);
  }

  /** @param {Shown} shown */
  update(shown) {
    this.shown = shown;
    this.dirty = true;
    if (this.visible) this.draw();
  }

  draw() {
    const { shown } = this;
    if (!shown || !this.dirty) return;
    this.dirty = false;
    if (!this.built) this.build();
    if (this.categories) this.categories.draw(shown);
    else this.drawPlot(shown);
    this.words(shown);
  }

  /** @param {Shown} shown */
  words(shown) {
    const { axis } = this;
    const { cell, now, before } = shown;
    const told = cell ? cellText(axis, cell) : summaryText(axis, now);
    const without = `without it: ${summaryText(axis, now).replace(/^(median|most likely) /, "")}`;
    if (cell) {
      setText(this.summary, cell.is === "soft" ? "soft evidence, by Jeffrey's rule" : `given ${told}`);
      setText(this.change, without);
    } else {
      setText(this.summary, told);
      setText(this.change, shown.idle ? axis.what : changeText(axis, now, before));
    }
    this.node.classList.toggle("mx-given", Boolean(cell));
    this.node.classList.toggle("mx-target", shown.target);
    this.clear.hidden = !cell;
    setAttributes(this.pin, { "aria-pressed": shown.pinned });
    setAttributes(this.target, { "aria-pressed": shown.target });
    setText(this.badge, shown.data ? `n = ${shown.data.n}` : "");
    const middle = now.q.length ? now.q[1] : now.m.indexOf(Math.max(...now.m));
    const value = cell && cell.is === "value" && typeof cell.value === "number" ? cell.value : middle;
    setAttributes(this.picture, {
      "aria-label": `${axis.id}: ${axis.what}`,
      "aria-valuenow": value,
      "aria-valuetext": cell ? `evidence: ${told}` : told,
    });
  }

  // Curves and bars of numbers --------------------------------------------------------------

  /** @param {Shown} shown */
  drawPlot({ now, before, cell, data }) {
    const { axis } = this;
    const heights = now.m;
    const top = Math.max(...heights, 1e-12);
    const was = before ? Math.max(...before.m) : 0;
    const scale = (BOTTOM - TOP) / Math.max(top, Math.min(was, 2.5 * top));
    if (axis.kind === "curve") {
      const path = this.curve(heights, scale);
      setAttributes(this.line, { d: path });
      setAttributes(this.fill, { d: this.area(heights, scale, cell) });
      setAttributes(this.before, { d: before ? this.curve(before.m, scale) : "" });
    } else {
      this.drawBars(now, before, cell, scale);
    }
    this.drawAtoms(now);
    this.drawData(data, scale);
    this.drawInterval(now, cell);
    this.drawEvidence(cell);
  }

  /** @param {number[]} masses @param {number} scale @returns {string} */
  curve(masses, scale) {
    const step = (RIGHT - LEFT) / masses.length;
    let path = "";
    for (let i = 0; i < masses.length; i++) {
      const y = Math.max(0, BOTTOM - masses[i] * scale);
      path += `${i ? "L" : "M"}${(LEFT + (i + 0.5) * step).toFixed(1)},${y.toFixed(1)}`;
    }
    return path;
  }

  /** @param {number[]} masses @param {number} scale @param {Cell | null} cell @returns {string} the area of the range, or all */
  area(masses, scale, cell) {
    if (cell && cell.is !== "range") return "";
    const [low, high] = cell ? this.rangeEnds(cell) : [LEFT, RIGHT];
    const step = (RIGHT - LEFT) / masses.length;
    let path = `M${low.toFixed(1)},${BOTTOM}`;
    for (let i = 0; i < masses.length; i++) {
      const x = LEFT + (i + 0.5) * step;
      if (x >= low && x <= high) path += `L${x.toFixed(1)},${Math.max(0, BOTTOM - masses[i] * scale).toFixed(1)}`;
    }
    return `${path}L${high.toFixed(1)},${BOTTOM}Z`;
  }

  /** @param {Monitor} now @param {Monitor | null} before @param {Cell | null} cell @param {number} scale */
  drawBars(now, before, cell, scale) {
    const { axis, bars } = this;
    const count = axis.places.length;
    while (bars.childElementCount < count) bars.append(shape("rect", {}));
    const xs = axis.places.map((p) => this.x(p));
    const gap = count > 1 ? Math.min(...xs.slice(1).map((x, i) => x - xs[i])) : 40;
    const width = Math.max(1, Math.min(0.8 * gap, 30));
    axis.places.forEach((place, i) => {
      const height = now.m[i] * scale;
      setAttributes(bars.children[i], {
        x: (xs[i] - width / 2).toFixed(1),
        y: (BOTTOM - height).toFixed(1),
        width: width.toFixed(1),
        height: height.toFixed(1),
        class: cell && holds(axis, cell, i) ? "mx-chosen" : null,
        "data-bar": i,
      });
    });
    let path = "";
    before?.m.forEach((mass, i) => {
      path += `M${(xs[i] - gap / 2).toFixed(1)},${Math.max(0, BOTTOM - mass * scale).toFixed(1)}h${gap.toFixed(1)}`;
    });
    setAttributes(this.before, { d: path });
  }

  /** @param {Monitor} now */
  drawAtoms(now) {
    const { axis, atoms } = this;
    const shown = axis.atoms.map((_, i) => i).filter((i) => this.x(axis.atoms[i]) > LEFT - 2 && this.x(axis.atoms[i]) < RIGHT + 2);
    while (atoms.childElementCount < shown.length) atoms.append(shape("g", {}, shape("line", { y1: BOTTOM }), shape("circle", { r: 2.5 }), shape("text", {})));
    shown.forEach((i, place) => {
      const x = this.x(axis.atoms[i]);
      const y = (BOTTOM - (BOTTOM - TOP - 8) * now.a[i]).toFixed(1);
      const [line, circle, text] = atoms.children[place].children;
      setAttributes(line, { x1: x, x2: x, y2: y });
      setAttributes(circle, { cx: x, cy: y });
      setAttributes(text, { x: x + (x > 240 ? -5 : 5), y: Math.max(TOP + 4, Number(y) + 3), "text-anchor": x > 240 ? "end" : "start" });
      setText(text, shareText(now.a[i]));
    });
  }

  /** @param {Shares | null} data @param {number} scale */
  drawData(data, scale) {
    const { axis } = this;
    let path = "";
    if (data && data.n > 0) {
      if (axis.kind === "bars") {
        data.m.forEach((share, i) => {
          path += dot(this.x(axis.places[i]), Math.max(2, BOTTOM - share * scale));
        });
      } else {
        const group = Math.max(1, Math.round(data.m.length / Math.min(40, Math.max(8, 2 * Math.cbrt(data.n)))));
        const step = (RIGHT - LEFT) / data.m.length;
        for (let i = 0; i < data.m.length; i += group) {
          const part = data.m.slice(i, i + group);
          const y = Math.max(0, BOTTOM - (part.reduce((a, b) => a + b, 0) / part.length) * scale);
          path += `${i ? "L" : "M"}${(LEFT + i * step).toFixed(1)},${y.toFixed(1)}h${(part.length * step).toFixed(1)}`;
        }
      }
    }
    setAttributes(this.data, { d: path, class: axis.kind === "bars" ? "mx-data mx-dots" : "mx-data" });
  }

  /** @param {Monitor} now @param {Cell | null} cell */
  drawInterval(now, cell) {
    const shown = now.q.length > 0 && !cell;
    show(this.interval, shown);
    if (!shown) return;
    const [low, middle, high] = now.q.map((q) => Math.min(RIGHT, Math.max(LEFT, this.x(q))).toFixed(1));
    setAttributes(this.between, { x1: low, x2: high });
    setAttributes(this.median, { cx: middle });
  }

  /** @param {Cell | null} cell */
  drawEvidence(cell) {
    const curve = this.axis.kind === "curve" ? cell : null;
    const range = curve?.is === "range" ? curve : null;
    const value = curve?.is === "value" ? this.x(Number(curve.value)) : null;
    const [low, high] = range ? this.rangeEnds(range) : [value ?? 0, 0];
    show(this.range, range !== null);
    show(this.knob, value !== null);
    show(this.ends[0], value !== null || (range !== null && range.low !== null));
    show(this.ends[1], range !== null && range.high !== null);
    if (range) setAttributes(this.range, { x: low, width: Math.max(1, high - low) });
    if (value !== null) setAttributes(this.knob, { cx: value });
    setAttributes(this.ends[0], { x1: low, x2: low });
    setAttributes(this.ends[1], { x1: high, x2: high });
  }

  /** @param {import("./types.js").RangeCell} cell @returns {[number, number]} its ends in the picture */
  rangeEnds(cell) {
    const low = cell.low === null ? LEFT : Math.max(LEFT, this.x(cell.low));
    const high = cell.high === null ? RIGHT : Math.min(RIGHT, this.x(cell.high));
    return [Math.min(low, RIGHT), Math.max(high, LEFT)];
  }

  // Order -----------------------------------------------------------------------------------

  /** @param {CardHooks} hooks */
  listenForMoves(hooks) {
    this.title.addEventListener("dragstart", (event) => {
      event.dataTransfer?.setData("text/x-column", this.axis.id);
    });
    this.node.addEventListener("dragover", (event) => {
      if (event.dataTransfer?.types.includes("text/x-column")) event.preventDefault();
    });
    this.node.addEventListener("drop", (event) => {
      const id = event.dataTransfer?.getData("text/x-column");
      if (id && id !== this.axis.id) hooks.onMove(id);
    });
  }
}

/** @param {Element} node @param {boolean} shown */
function show(node, shown) {
  setAttributes(node, { display: shown ? null : "none" });
}

/** @param {Axis} axis @returns {string} */
function describe(axis) {
  return [axis.id, axis.what, ...axis.notes].join(" · ");
}

/** @param {number[]} places @param {number} value */
function nearestPlace(places, value) {
  let best = 0;
  places.forEach((p, i) => {
    if (Math.abs(p - value) < Math.abs(places[best] - value)) best = i;
  });
  return best;
}

/** @param {Monitor} a @param {Monitor} b @returns {number} total variation distance on the bins */
export function distance(a, b) {
  let sum = 0;
  for (const key of /** @type {const} */ (["m", "a", "b"])) {
    a[key].forEach((mass, i) => {
      sum += Math.abs(mass - b[key][i]);
    });
  }
  return sum / 2;
}

/** @param {Axis} axis @param {Monitor} now @param {Monitor | null} before @returns {string} what changed */
function changeText(axis, now, before) {
  const moved = before ? distance(now, before) : 0;
  if (!before || moved < 0.0005) return "unchanged";
  const share = `${shareText(moved)} moved`;
  if (axis.family === "category") {
    const best = now.m.indexOf(Math.max(...now.m));
    const by = 100 * (now.m[best] - before.m[best]);
    return `${axis.labels[best]} ${by < 0 ? "−" : "+"}${Math.abs(by).toFixed(1)} points · ${share}`;
  }
  const by = now.q[1] - before.q[1];
  if (!by) return `median as before · ${share}`;
  const text = axis.family === "time" ? `from ${valueText(axis, before.q[1])}` : `${by < 0 ? "−" : "+"}${pageValueText({ ...axis, listed: false }, Number(Math.abs(by).toPrecision(3)))}`;
  return `median ${text} · ${share}`;
}
