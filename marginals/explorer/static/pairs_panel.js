/** The joint distribution of two columns, with the data's rows that agree with the evidence. */

import { axisTicks, shareText } from "./format.js";
import { element, saveSvg, shape } from "./svg.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./types.js").Axis} Axis
 * @typedef {{x: number[], y: number[], m: number[][], points: number[][]}} PairFacts
 */

const SIZE = { width: 640, height: 520, left: 74, right: 630, top: 10, bottom: 470 };
const SHARES = [0.1, 0.25, 0.5, 0.75, 0.9];

export class PairsPanel {
  /** @param {State} state @param {() => void} onChange */
  constructor(state, onChange) {
    this.state = state;
    this.picture = shape("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, class: "mx-pair", role: "img" });
    this.choices = [0, 1].map((side) => {
      const choice = element("select", { "aria-label": side ? "Column on the vertical axis" : "Column on the horizontal axis" });
      choice.append(...state.axes.map((axis) => element("option", { value: axis.id }, axis.id)));
      choice.addEventListener("change", () => {
        state.pair[side] = choice.value;
        if (state.pair[0] === state.pair[1]) state.pair[1 - side] = state.axes.find((a) => a.id !== choice.value)?.id ?? choice.value;
        onChange();
      });
      return choice;
    });
    const swap = element("button", { type: "button", onclick: () => (state.pair.reverse(), onChange()) }, "Swap");
    const save = element("button", { type: "button", onclick: () => saveSvg(this.picture, state.pair.join(" and ")) }, "Save as SVG");
    this.note = element("p", { class: "mx-note" });
    this.node = element(
      "section",
      { class: "mx-view mx-pairs", "aria-label": "Pairs" },
      element("div", { class: "mx-row-tools" }, element("label", {}, "Across ", this.choices[0]), element("label", {}, "Up ", this.choices[1]), swap, save),
      this.picture,
      this.note,
    );
  }

  sync() {
    this.state.pair.forEach((id, side) => {
      this.choices[side].value = id;
    });
  }

  /** @param {PairFacts} facts */
  show(facts) {
    const [x, y] = this.state.pair.map((id) => this.state.byId.get(id));
    if (!x || !y) return;
    const across = scale(x, facts.x, SIZE.left, SIZE.right);
    const up = scale(y, facts.y, SIZE.bottom, SIZE.top);
    const cells = shape("g", { class: "mx-cells" });
    const heights = levels(facts);
    if (x.kind === "curve" && y.kind === "curve") {
      const density = facts.m.map((row, j) => row.map((_, i) => densityAt(facts, i, j)));
      const middles = [centres(facts.x).map(across.place), centres(facts.y).map(up.place)];
      [...heights].reverse().forEach((height, k) => {
        cells.append(shape("path", { class: `mx-level-${SHARES.length - 1 - k}`, d: region(density, middles[0], middles[1], height) }));
      });
    } else if (x.kind === "curve" || y.kind === "curve") {
      cells.append(...strips(facts, across, up, y.kind === "curve"));
    } else {
      facts.m.forEach((row, j) => {
        row.forEach((mass, i) => {
          const [left, top] = [across.end(i), up.end(j + 1)];
          const size = { width: (across.end(i + 1) - left - 0.5).toFixed(1), height: (up.end(j) - top - 0.5).toFixed(1) };
          const place = heights.findIndex((height) => densityAt(facts, i, j) >= height);
          const cell = shape("rect", { x: left.toFixed(1), y: top.toFixed(1), ...size, class: place < 0 ? "mx-level-none" : `mx-level-${place}` });
          cell.append(shape("title", {}, shareText(mass)));
          cells.append(cell);
        });
      });
    }
    const dots = shape("g", { class: "mx-points" });
    facts.points.forEach(([px, py], n) => {
      const at = [across.at(px) + jitter(x, n, across), up.at(py) + jitter(y, n + 7, up)];
      if (at[0] < SIZE.left || at[0] > SIZE.right || at[1] < SIZE.top || at[1] > SIZE.bottom) return;
      dots.append(shape("circle", { cx: at[0].toFixed(1), cy: at[1].toFixed(1), r: 2.2 }));
    });
    const frame = shape("rect", { x: SIZE.left, y: SIZE.top, width: SIZE.right - SIZE.left, height: SIZE.bottom - SIZE.top, class: "mx-frame" });
    const names = shape("g", { class: "mx-names" }, shape("text", { x: (SIZE.left + SIZE.right) / 2, y: SIZE.height - 8, "text-anchor": "middle" }, shortened(x.id)), shape("text", { x: 14, y: (SIZE.top + SIZE.bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(SIZE.top + SIZE.bottom) / 2})` }, shortened(y.id)));
    this.picture.replaceChildren(cells, dots, frame, ticksOf(x, across, false), ticksOf(y, up, true), names);
    const total = facts.m.flat().reduce((a, b) => a + b, 0);
    this.picture.setAttribute("aria-label", `Joint distribution of ${x.id} and ${y.id}`);
    const shares = SHARES.map((s) => `${100 * s} %`).join(", ");
    const strip = (x.kind === "curve") !== (y.kind === "curve");
    const told = strip ? "The width of a strip is the joint density" : `Darker regions of highest density hold ${shares} of the mass`;
    this.note.textContent = `${told}; the picture shows ${shareText(Math.min(1, total))} of it.${facts.points.length ? ` Dots: ${facts.points.length} rows of the data that agree with the evidence.` : ""}`;
  }
}

/** @param {string} name @returns {string} a name that fits beside the picture */
function shortened(name) {
  return name.length > 48 ? `${name.slice(0, 47)}…` : name;
}

/** @param {PairFacts} facts @param {number} i @param {number} j @returns {number} mass per area */
function densityAt(facts, i, j) {
  return facts.m[j][i] / ((facts.x[i + 1] - facts.x[i]) * (facts.y[j + 1] - facts.y[j]));
}

/** @param {PairFacts} facts @returns {number[]} densities above which regions hold `SHARES` */
function levels(facts) {
  const cells = facts.m.flatMap((row, j) => row.map((mass, i) => ({ mass, density: densityAt(facts, i, j) })));
  cells.sort((a, b) => b.density - a.density);
  const total = cells.reduce((sum, cell) => sum + cell.mass, 0);
  let sum = 0;
  let next = 0;
  /** @type {number[]} */
  const heights = [];
  for (const cell of cells) {
    sum += cell.mass;
    while (next < SHARES.length && sum >= SHARES[next] * total) {
      heights.push(cell.density);
      next += 1;
    }
  }
  return heights;
}

/**
 * One strip for each value of the column with bars: the density along the other, times the value's
 * probability, so that wider strips are likelier.
 *
 * @param {PairFacts} facts
 * @param {ReturnType<typeof scale>} across
 * @param {ReturnType<typeof scale>} up
 * @param {boolean} upright whether the strips stand
 * @returns {SVGPathElement[]}
 */
function strips(facts, across, up, upright) {
  const [bars, line] = upright ? [across, up] : [up, across];
  const count = upright ? facts.x.length - 1 : facts.y.length - 1;
  const ends = upright ? facts.y : facts.x;
  const middles = centres(ends).map(line.place);
  const mass = (/** @type {number} */ bar, /** @type {number} */ i) => (upright ? facts.m[i][bar] : facts.m[bar][i]) / (ends[i + 1] - ends[i]);
  const top = Math.max(1e-300, ...middles.flatMap((_, i) => Array.from({ length: count }, (__, bar) => mass(bar, i))));
  return Array.from({ length: count }, (_, bar) => {
    const centre = (bars.end(bar) + bars.end(bar + 1)) / 2;
    const half = 0.45 * Math.abs(bars.end(bar + 1) - bars.end(bar));
    const sides = [1, -1].map((sign) => middles.map((at, i) => [centre + (sign * half * mass(bar, i)) / top, at]));
    const points = [...sides[0], ...sides[1].reverse()].map(([a, b]) => (upright ? [a, b] : [b, a]));
    return shape("path", { class: "mx-level-2", d: `M${points.map((p) => p.map((v) => v.toFixed(1)).join(",")).join("L")}Z` });
  });
}

/** @param {number[]} ends @returns {number[]} */
function centres(ends) {
  return ends.slice(1).map((end, i) => (end + ends[i]) / 2);
}

/**
 * The region in which a density on a grid is at least a height, by linear interpolation: a polygon
 * in each cell between four points of the grid.
 *
 * @param {number[][]} density
 * @param {number[]} xs
 * @param {number[]} ys
 * @param {number} height
 * @returns {string} a path
 */
function region(density, xs, ys, height) {
  let path = "";
  for (let j = 0; j + 1 < ys.length; j++) {
    for (let i = 0; i + 1 < xs.length; i++) {
      const corners = [
        [xs[i], ys[j], density[j][i]],
        [xs[i + 1], ys[j], density[j][i + 1]],
        [xs[i + 1], ys[j + 1], density[j + 1][i + 1]],
        [xs[i], ys[j + 1], density[j + 1][i]],
      ];
      const points = [];
      for (let k = 0; k < 4; k++) {
        const [a, b] = [corners[k], corners[(k + 1) % 4]];
        if (a[2] >= height) points.push(`${a[0].toFixed(1)},${a[1].toFixed(1)}`);
        if (a[2] >= height !== b[2] >= height) {
          const t = (height - a[2]) / (b[2] - a[2]);
          points.push(`${(a[0] + t * (b[0] - a[0])).toFixed(1)},${(a[1] + t * (b[1] - a[1])).toFixed(1)}`);
        }
      }
      if (points.length > 2) path += `M${points.join("L")}Z`;
    }
  }
  return path;
}

/**
 * @param {Axis} axis
 * @param {number[]} ends
 * @param {number} from
 * @param {number} to
 */
function scale(axis, ends, from, to) {
  const low = ends[0];
  const high = ends[ends.length - 1];
  const place = (/** @type {number} */ value) => from + ((value - low) / (high - low)) * (to - from);
  const index = (/** @type {number} */ value) => (axis.listed && axis.family !== "category" ? axis.places.indexOf(value) : value);
  return { place, end: (/** @type {number} */ i) => place(ends[i]), at: (/** @type {number} */ value) => place(index(value)), cell: Math.abs(to - from) / (ends.length - 1) };
}

/** @param {Axis} axis @param {number} n @param {{cell: number}} across @returns {number} */
function jitter(axis, n, across) {
  if (axis.kind === "curve") return 0;
  return ((((n * 2654435761) % 1000) + 1000) % 1000 / 1000 - 0.5) * 0.5 * across.cell;
}

/** @param {Axis} axis @param {ReturnType<typeof scale>} across @param {boolean} vertical */
function ticksOf(axis, across, vertical) {
  const group = shape("g", { class: "mx-ticks" });
  const most = axis.labels.length;
  const every = Math.ceil(most / (vertical ? 24 : 12));
  const marks = axis.listed ? axis.labels.map((text, i) => ({ at: axis.family === "category" ? i : axis.places[i], text })).filter((_, i) => i % every === 0) : axisTicks(axis, 6);
  for (const mark of marks) {
    const at = across.at(mark.at);
    if (!Number.isFinite(at)) continue;
    const text = mark.text.length > 12 ? `${mark.text.slice(0, 11)}…` : mark.text;
    group.append(vertical ? shape("text", { x: SIZE.left - 6, y: at + 4, "text-anchor": "end" }, text) : shape("text", { x: at, y: SIZE.bottom + 16, "text-anchor": "middle" }, text));
  }
  return group;
}
