/** The bar that stays in sight: pieces of evidence, their probability, and the data's rows. */

import { cellText, expText, shareText } from "./format.js";
import { element } from "./svg.js";

/**
 * @typedef {import("./types.js").Evidence} Evidence
 * @typedef {import("./types.js").EvidenceFacts} EvidenceFacts
 * @typedef {import("./types.js").DataFacts} DataFacts
 * @typedef {import("./state.js").State} State
 */

export class EvidenceBar {
  /** @param {(id: string) => void} onClear @param {(id: string) => void} onShow */
  constructor(onClear, onShow) {
    this.onClear = onClear;
    this.onShow = onShow;
    this.chips = element("ul", { class: "mx-chips", "aria-label": "Evidence" });
    this.probability = element("output", { class: "mx-probability", "aria-label": "Probability of the evidence" });
    this.rows = element("output", { class: "mx-agree", "aria-label": "Rows of the data that agree" });
    this.node = element("div", { class: "mx-evidence-bar" }, this.chips, this.probability, this.rows);
  }

  /** @param {State} state @param {Evidence} evidence */
  show(state, evidence) {
    const items = Object.entries(evidence).map(([id, cell]) => {
      const axis = state.byId.get(id);
      const text = axis ? cellText(axis, cell) : id;
      const remove = element("button", { type: "button", "aria-label": `Remove ${text}`, onclick: () => this.onClear(id) }, "×");
      const name = element("button", { type: "button", class: "mx-chip-name", title: "Show this column", onclick: () => this.onShow(id) }, text);
      return element("li", { class: cell.is === "soft" ? "mx-soft" : "" }, name, remove);
    });
    const hint = element("li", { class: "mx-hint" }, "No evidence. Click or drag on a column, or press an arrow key on it.");
    this.chips.replaceChildren(...(items.length ? items : [hint]));
  }

  /** @param {EvidenceFacts | null} facts @param {boolean} any */
  showProbability(facts, any) {
    if (!facts || !any) {
      this.probability.textContent = "";
      return;
    }
    const name = facts.density ? "density of evidence" : "P(evidence)";
    const value = expText(facts.log);
    const share = !facts.density && facts.log > -12 ? ` (${shareText(Math.min(1, Math.exp(facts.log)))})` : "";
    const error = facts.error > 0 ? ` ± ${errorText(facts)}` : "";
    const outside = facts.outside?.length ? ` · far outside of the data: ${facts.outside.join(", ")}` : "";
    this.probability.replaceChildren(`${name} ${facts.rough ? "≈" : "="} `, element("b", {}, value), `${error}${share}${outside}`);
    if (facts.rough) this.probability.title = "Interpolated while you drag.";
    else this.probability.title = facts.error > 0 ? "Boxes of coupled columns are integrated numerically; the error is an upper bound." : "In closed form, exact to float precision.";
  }

  /** @param {DataFacts | null} facts */
  showRows(facts) {
    if (!facts) {
      this.rows.textContent = "";
      return;
    }
    const remarks = facts.remarks.length ? ` (${facts.remarks.join(", ")})` : "";
    this.rows.textContent = `${facts.agree} of ${facts.rows} rows agree${remarks}`;
  }
}

/** @param {EvidenceFacts} facts @returns {string} the error in the unit of the value, or relative */
function errorText(facts) {
  return facts.log > -27 ? String(Number((facts.error * Math.exp(facts.log)).toPrecision(1))) : `${Number((100 * facts.error).toPrecision(1))} %`;
}
