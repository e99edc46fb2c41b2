/** The target: which columns tell most about it, and what each piece of evidence did to it. */

import { numberText, shareText, valueText } from "./format.js";
import { element, iconButton, saveSvg, shape } from "./svg.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./types.js").Axis} Axis
 *
 * @typedef {object} TargetFacts
 * @property {{id: string, nats: number, error: number}[]} ranking
 * @property {{id: string, by: number}[]} contributions
 * @property {string} of
 * @property {number} before
 * @property {number} after
 * @property {number} entropy
 * @property {number} draws
 */

const LINE = 20;

export class TargetPanel {
  /** @param {State} state @param {(id: string) => void} onShow @param {() => void} onClose */
  constructor(state, onShow, onClose) {
    this.state = state;
    this.onShow = onShow;
    this.body = element("div", { class: "mx-panel-body" });
    this.title = element("h2", {});
    const head = element("header", {}, this.title, iconButton("clear", "No target", onClose));
    this.node = element("aside", { class: "mx-panel mx-target-panel", "aria-label": "Target", hidden: true }, head, this.body);
  }

  /** @param {string} id */
  wait(id) {
    this.title.textContent = `Target: ${id}`;
    this.body.classList.add("mx-waiting");
    if (!this.body.hasChildNodes()) this.body.append(element("p", { class: "mx-note" }, "Drawing rows to see what tells about it…"));
  }

  /** @param {string} id @param {TargetFacts} facts */
  show(id, facts) {
    const axis = this.state.byId.get(id);
    if (!axis) return;
    this.title.textContent = `Target: ${id}`;
    this.body.classList.remove("mx-waiting");
    const told = this.chart(
      "What the columns tell about it",
      facts.ranking.map((line) => ({ id: line.id, value: line.nats, text: `${line.nats.toFixed(3)} ± ${line.error.toFixed(3)}`, title: "nats" })),
    );
    const shift = facts.contributions.map((part) => ({ id: part.id, value: part.by, text: signed(axis, facts.of, part.by), title: "" }));
    const value = (/** @type {number} */ x) => (facts.of.startsWith("P(") ? shareText(x) : valueText({ ...axis, step: null, listed: false }, x));
    const moved = facts.contributions.length ? `${facts.of}: ${value(facts.before)} → ${value(facts.after)}` : `${facts.of}: ${value(facts.after)}. Give evidence to see what it contributes.`;
    this.body.replaceChildren(
      element("h3", {}, "What the evidence did"),
      element("p", { class: "mx-note" }, moved),
      ...(shift.length ? [this.chart("Contributions of the evidence", shift)] : []),
      element("h3", {}, "What would tell most"),
      element("p", { class: "mx-note" }, `Mutual information in nats given the evidence, from ${facts.draws} draws.`),
      told,
    );
  }

  /** @param {string} name @param {{id: string, value: number, text: string, title: string}[]} lines @returns {HTMLElement} */
  chart(name, lines) {
    const most = Math.max(1e-12, ...lines.map((line) => Math.abs(line.value)));
    const negative = lines.some((line) => line.value < 0);
    const zero = negative ? 164 : 112;
    const room = negative ? 50 : 98;
    const picture = shape("svg", { viewBox: `0 0 300 ${lines.length * LINE + 4}`, class: "mx-chart", role: "group", "aria-label": name });
    lines.forEach((line, i) => {
      const y = i * LINE + 2;
      const length = (Math.abs(line.value) / most) * room;
      const label = line.id.length > 16 ? `${line.id.slice(0, 14)}…` : line.id;
      picture.append(
        shape(
          "g",
          {
            class: "mx-line-link",
            role: "button",
            tabindex: 0,
            "aria-label": `${line.id} ${line.text}: show this column`,
            onclick: () => this.onShow(line.id),
            onkeydown: (event) => event.key === "Enter" && this.onShow(line.id),
          },
          shape("text", { x: 106, y: y + 13, "text-anchor": "end" }, label, shape("title", {}, `${line.id} ${line.title}`)),
          shape("rect", { x: line.value < 0 ? zero - length : zero, y: y + 3, width: Math.max(0.5, length), height: LINE - 8, class: line.value < 0 ? "mx-less" : "mx-more" }),
          shape("text", { x: 298, y: y + 13, "text-anchor": "end", class: "mx-share" }, line.text),
        ),
      );
    });
    const save = element("button", { type: "button", class: "mx-link", onclick: () => saveSvg(picture, name) }, "Save as SVG");
    return element("figure", {}, picture, save);
  }
}

/** @param {Axis} axis @param {string} of @param {number} by */
function signed(axis, of, by) {
  const sign = by < 0 ? "−" : "+";
  if (of.startsWith("P(")) return `${sign}${(100 * Math.abs(by)).toFixed(1)} points`;
  const size = Math.abs(by);
  return axis.family === "time" ? `${sign}${numberText(size / 86400e3)} d` : `${sign}${valueText({ ...axis, step: null, listed: false, family: axis.family }, size)}`;
}
