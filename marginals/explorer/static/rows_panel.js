/** Rows: one of the data or a pasted one, explained; and draws that agree with the evidence. */

import { numberText, pageValueText, shareText } from "./format.js";
import { download, element } from "./svg.js";

/**
 * @typedef {import("./state.js").State} State
 * @typedef {import("./types.js").Evidence} Evidence
 * @typedef {import("./types.js").Table} Table
 * @typedef {import("./transport.js").Reply} Reply
 *
 * @typedef {{id: string, value: number | string | null, expected: number | string, low: number | string | null, high: number | string | null, tail?: number, share?: number}} RowLine
 *
 * @typedef {object} RowHooks
 * @property {(ask: string, content: object) => Promise<Reply | null>} ask
 * @property {(evidence: Evidence) => void} give Take evidence from a row.
 * @property {() => Evidence} evidence
 * @property {(message: string) => void} say
 */

export class RowsPanel {
  /** @param {State} state @param {Table} table @param {RowHooks} hooks */
  constructor(state, table, hooks) {
    this.state = state;
    this.hooks = hooks;
    /** @type {Record<string, number | string | null>} */
    this.cells = {};
    const most = (table.rows ?? 1) - 1;
    this.number = element("input", { type: "number", min: 0, max: most, value: 0, "aria-label": "Row of the data" });
    this.number.addEventListener("change", () => this.take(Number(this.number.value)));
    this.text = element("textarea", { rows: 3, spellcheck: "false", "aria-label": "A row to paste", placeholder: "Paste a header and a line of CSV, or a JSON object" });
    this.table = element("div", { class: "mx-table-wrap" });
    this.count = element("input", { type: "number", min: 1, max: 10000, value: 100, "aria-label": "Number of rows to draw" });
    this.drawn = element("div", { class: "mx-table-wrap mx-drawn" });
    const step = (/** @type {number} */ by) => () => this.take(Math.min(most, Math.max(0, Number(this.number.value) + by)));
    const fromData = element(
      "div",
      { class: "mx-row-tools", hidden: table.rows === null },
      element("label", {}, "Row ", this.number),
      element("span", {}, `of ${table.rows ?? 0}`),
      element("button", { type: "button", onclick: step(-1) }, "Previous"),
      element("button", { type: "button", onclick: step(1) }, "Next"),
    );
    this.node = element(
      "section",
      { class: "mx-view mx-rows", "aria-label": "Rows", hidden: true },
      element("h2", {}, "A row: what is missing, and what surprises"),
      fromData,
      element("div", { class: "mx-paste" }, this.text, element("button", { type: "button", onclick: () => this.paste() }, "Read this row")),
      this.table,
      element("h2", {}, "Draw rows that agree with the evidence"),
      element(
        "div",
        { class: "mx-row-tools" },
        element("label", {}, "Rows ", this.count),
        element("button", { type: "button", onclick: () => this.draw(false) }, "Draw"),
        element("button", { type: "button", onclick: () => this.draw(true) }, "Save as CSV"),
      ),
      this.drawn,
    );
    this.hasData = table.rows !== null;
  }

  open() {
    if (this.hasData && !Object.keys(this.cells).length) this.take(0);
  }

  /** @param {number} row */
  async take(row) {
    this.number.value = String(row);
    const reply = await this.hooks.ask("data_row", { row });
    if (reply?.error) this.hooks.say(reply.error);
    else if (reply) await this.explain(reply.cells);
  }

  async paste() {
    const reply = await this.hooks.ask("paste", { text: this.text.value });
    if (reply?.error) this.hooks.say(reply.error);
    else if (reply) await this.explain(reply.cells);
  }

  /** @param {Record<string, number | string | null>} cells */
  async explain(cells) {
    this.cells = cells;
    this.table.classList.add("mx-waiting");
    const reply = await this.hooks.ask("row", { cells });
    this.table.classList.remove("mx-waiting");
    if (reply?.error) this.hooks.say(reply.error);
    else if (reply) this.show(reply.cells);
  }

  /** @param {RowLine[]} lines */
  show(lines) {
    const tails = lines.map((line) => line.tail ?? 1);
    const head = ["column", "value", "normal or filled in", "90 %", "tail", ""].map((text) => element("th", { scope: "col" }, text));
    const body = lines.map((line, i) => this.line(line, tails[i]));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
    const give = element("button", { type: "button", onclick: () => this.give(lines) }, "Use the row's values as evidence");
    this.table.replaceChildren(table, element("p", { class: "mx-note" }, "Tail: probability of a value as far out given the row's other values; of a category, its probability."), give);
  }

  /** @param {RowLine} line @param {number} tail @returns {HTMLElement} */
  line(line, tail) {
    const axis = this.state.byId.get(line.id);
    if (!axis) return element("tr", {});
    const text = (/** @type {number | string | null} */ v) => (v === null ? "" : pageValueText(axis, v));
    const gap = line.value === null;
    const kind = gap ? "mx-gap" : tail < 0.01 ? "mx-surprise" : tail < 0.05 ? "mx-odd" : "";
    const span = line.low === null ? (line.share === undefined ? "" : shareText(line.share)) : `${text(line.low)} – ${text(line.high)}`;
    const forget = element("button", { type: "button", class: "mx-small", "aria-label": gap ? `${line.id} is unknown` : `Mark ${line.id} as unknown`, title: "Mark as unknown", disabled: gap, onclick: () => this.explain({ ...this.cells, [line.id]: null }) }, "?");
    const edit = element("input", { class: "mx-cell", value: text(line.value), placeholder: "unknown", "aria-label": `Value of ${line.id}` });
    edit.addEventListener("change", async () => {
      const reply = await this.hooks.ask("typed", { column: line.id, text: edit.value });
      if (reply?.error || (reply?.cell && reply.cell.is !== "value")) this.hooks.say(reply.error ?? "Expected a single value.");
      else if (reply) await this.explain({ ...this.cells, [line.id]: reply.cell ? reply.cell.value : null });
    });
    return element(
      "tr",
      { class: kind, "data-id": line.id },
      element("th", { scope: "row" }, line.id),
      element("td", {}, edit),
      element("td", { class: "mx-expected" }, text(line.expected)),
      element("td", {}, span),
      element("td", {}, gap ? "" : tail < 0.001 ? tail.toExponential(1) : numberText(tail)),
      element("td", {}, forget),
    );
  }

  /** @param {RowLine[]} lines */
  give(lines) {
    /** @type {Evidence} */
    const evidence = {};
    for (const line of lines) if (line.value !== null) evidence[line.id] = { is: "value", value: line.value };
    this.hooks.give(evidence);
  }

  /** @param {boolean} save */
  async draw(save) {
    const count = Math.round(Number(this.count.value));
    const reply = await this.hooks.ask("sample", { evidence: this.hooks.evidence(), count, seed: 0 });
    if (!reply) return;
    if (reply.error) {
      this.hooks.say(reply.error);
      return;
    }
    if (save) download(reply.csv, "rows.csv", "text/csv");
    const lines = String(reply.csv).trim().split("\n").slice(0, 21).map(splitLine);
    const head = element("tr", {}, ...lines[0].map((text) => element("th", { scope: "col" }, text)));
    const body = lines.slice(1).map((line) => element("tr", {}, ...line.map((text) => element("td", {}, text))));
    const note = count > 20 ? `The first 20 of ${count} rows.` : `${count} rows.`;
    this.drawn.replaceChildren(element("p", { class: "mx-note" }, note), element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
  }
}

/** @param {string} line of CSV @returns {string[]} */
function splitLine(line) {
  return (line.match(/("([^"]|"")*"|[^,]*)(,|$)/g) ?? []).slice(0, -1).concat().map((cell) => cell.replace(/,$/, "").replace(/^"|"$/g, "").replaceAll('""', '"'));
}
