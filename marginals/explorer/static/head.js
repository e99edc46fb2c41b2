/** The head of the page: views, target, order, comparison, search, undo and copies of the question. */

import { element, iconButton } from "./svg.js";

/**
 * @typedef {import("./types.js").Table} Table
 * @typedef {import("./state.js").State} State
 * @typedef {keyof typeof COPIES} Copy
 *
 * @typedef {object} HeadHooks
 * @property {(asks: boolean) => void} changed The state has another view, target or order.
 * @property {(text: string) => void} search
 * @property {(way: "undo" | "redo" | "clear") => void} travel
 * @property {(kind: Copy) => void} copy
 * @property {() => void} theme
 */

export const COPIES = { python: "Python", query: "query", command: "command line" };
const VIEWS = { monitors: "Monitors", pairs: "Pairs", rows: "Rows" };
const SORTS = {
  table: "Table order",
  name: "By name",
  changed: "Most changed first",
  target: "By information about the target",
  mine: "My order",
};

export class Head {
  /** @param {State} state @param {Table} table @param {HTMLElement} bar @param {HeadHooks} hooks */
  constructor(state, table, bar, hooks) {
    this.state = state;
    this.undo = iconButton("undo", "Undo (Ctrl+Z)", () => hooks.travel("undo"));
    this.redo = iconButton("redo", "Redo (Ctrl+Y)", () => hooks.travel("redo"));
    this.clear = element("button", { type: "button", onclick: () => hooks.travel("clear") }, "Clear all");
    this.tabs = Object.entries(VIEWS).map(([view, name]) => {
      const open = () => {
        state.view = /** @type {keyof typeof VIEWS} */ (view);
        hooks.changed(false);
      };
      return element("button", { type: "button", role: "tab", "data-view": view, onclick: open }, name);
    });
    this.tabs[1].hidden = state.axes.length < 2;
    const find = element("input", { type: "search", placeholder: "Search columns", "aria-label": "Search columns" });
    find.addEventListener("input", () => hooks.search(find.value.trim().toLowerCase()));
    this.sort = select("Order of the columns", SORTS, (value) => {
      state.sort = value;
      hooks.changed(false);
    });
    this.against = select("Compare with", { previous: "Compare: last step", none: "Compare: no evidence" }, (value) => {
      state.against = value;
      hooks.changed(false);
    });
    const targets = state.axes.map((axis) => /** @type {[string, string]} */ ([axis.id, `Target: ${axis.id}`]));
    this.target = select("Target", [["", "No target"], ...targets], (value) => {
      state.target = value || null;
      hooks.changed(false);
    });
    const file = table.model.split(/[\\/]/).pop() ?? "";
    const title = element("h1", {}, "marginals ", element("small", { title: table.model }, file));
    const views = element("div", { class: "mx-tabs", role: "tablist", "aria-label": "Views" }, ...this.tabs);
    const theme = iconButton("theme", "Light or dark", hooks.theme);
    const copies = Object.entries(COPIES).map(([kind, name]) =>
      element("button", { type: "button", "data-copy": kind, title: `Copy this question as ${name}`, onclick: () => hooks.copy(/** @type {Copy} */ (kind)) }, name),
    );
    this.node = element(
      "header",
      { class: "mx-head" },
      element("div", { class: "mx-top" }, title, views, this.target, this.sort, this.against, find, theme),
      element("div", { class: "mx-under" }, this.undo, this.redo, this.clear, bar, element("span", { class: "mx-copy" }, "Copy as ", ...copies)),
    );
    this.node.addEventListener("keydown", (event) => this.walk(event));
  }

  /** Arrow keys go from tab to tab. @param {KeyboardEvent} event */
  walk(event) {
    const shown = this.tabs.filter((tab) => !tab.hidden);
    const at = shown.findIndex((tab) => tab === event.target);
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (at < 0 || !by) return;
    const next = shown[(at + by + shown.length) % shown.length];
    next.click();
    next.focus();
    event.preventDefault();
  }

  /** Show the state. */
  sync() {
    const { state } = this;
    this.undo.disabled = !state.past.length;
    this.redo.disabled = !state.future.length;
    this.clear.disabled = !Object.keys(state.evidence).length;
    this.sort.value = state.sort;
    this.against.value = state.against;
    this.target.value = state.target ?? "";
    for (const tab of this.tabs) {
      const open = tab.dataset.view === state.view;
      tab.setAttribute("aria-selected", String(open));
      tab.tabIndex = open ? 0 : -1;
    }
  }
}

/** @param {string} label @param {Record<string, string> | [string, string][]} options @param {(value: string) => void} onChange */
function select(label, options, onChange) {
  const node = element("select", { "aria-label": label, title: label });
  const pairs = Array.isArray(options) ? options : Object.entries(options);
  node.append(...pairs.map(([value, text]) => element("option", { value }, text)));
  node.addEventListener("change", () => onChange(node.value));
  return node;
}
