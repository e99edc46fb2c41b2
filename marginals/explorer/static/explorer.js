/** The explorer: evidence goes out, answers come back, and all parts show them. */

import { movedBefore, ordered, shownOf, stepped } from "./arrangement.js";
import { Drag } from "./drag.js";
import { EvidenceBar } from "./evidence_bar.js";
import { cellText } from "./format.js";
import { listenForGestures } from "./gestures.js";
import { COPIES, Head } from "./head.js";
import { Messages } from "./messages.js";
import { MonitorCard } from "./monitor.js";
import { PairsPanel } from "./pairs_panel.js";
import { RowsPanel } from "./rows_panel.js";
import { State } from "./state.js";
import { element } from "./svg.js";
import { TargetPanel } from "./target_panel.js";
import { Asker } from "./transport.js";
import { openTyping } from "./typing.js";

/**
 * @typedef {import("./types.js").Axis} Axis
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Evidence} Evidence
 * @typedef {import("./types.js").Monitor} Monitor
 * @typedef {import("./types.js").DataFacts} DataFacts
 * @typedef {import("./types.js").Table} Table
 * @typedef {import("./state.js").Address} Address
 * @typedef {import("./transport.js").Transport} Transport
 */

// Milliseconds after which a server that was away is tried again.
const AGAIN = 2000;

/**
 * @param {HTMLElement} root
 * @param {Transport} transport
 * @param {Address | null} address where the state is kept, if anywhere
 * @param {string} away what to say while nothing answers
 * @returns {Promise<Explorer | null>}
 */
export async function startExplorer(root, transport, address, away) {
  root.classList.add("mx");
  const messages = new Messages();
  /** @type {Explorer | null} */
  let explorer = null;
  const asker = new Asker(transport, (reached) => {
    messages.warn(reached ? null : away);
    if (!reached) explorer?.tryAgain();
  });
  const table = await asker.ask("table");
  if (!table || table.error) {
    if (table?.error) messages.warn(table.error);
    root.replaceChildren(messages.banner);
    return null;
  }
  explorer = new Explorer(root, asker, /** @type {any} */ (table), messages, address);
  return explorer;
}

export class Explorer {
  /** @param {HTMLElement} root @param {Asker} asker @param {Table} table @param {Messages} messages @param {Address | null} address */
  constructor(root, asker, table, messages, address) {
    this.root = root;
    this.asker = asker;
    this.table = table;
    this.messages = messages;
    this.address = address;
    this.state = new State(table.columns);
    /** @type {Record<string, Monitor>} the monitors shown */
    this.monitors = table.monitors;
    /** @type {Record<string, Monitor>} those of the evidence before */
    this.previous = table.monitors;
    /** @type {Record<string, Monitor>} the last ones of committed evidence */
    this.settled = table.monitors;
    /** @type {DataFacts | null} */
    this.data = null;
    /** @type {Evidence | null} evidence of a drag under way */
    this.draft = null;
    /** @type {Map<string, number>} */
    this.information = new Map();
    this.search = "";
    this.targetKey = "";
    this.trying = 0;
    const { state } = this;
    const ask = (/** @type {string} */ name, /** @type {object} */ content) => this.asker.ask(name, content);
    const inSight = () => [...this.cards.values()].filter((card) => card.visible).map((card) => card.axis.id);
    this.drag = new Drag({ ask, axes: state.byId, inSight });
    this.bar = new EvidenceBar((id) => this.give(id, null), (id) => this.reveal(id));
    this.head = new Head(state, table, this.bar.node, {
      changed: (asks) => this.changed(asks),
      search: (text) => {
        this.search = text;
        this.arrange();
      },
      travel: (way) => (way === "clear" ? this.replace({}) : this.travel(state[way]())),
      copy: (kind) => this.copy(kind),
      theme: () => this.toggleTheme(),
    });
    this.grid = element("div", { class: "mx-grid", role: "list", "aria-label": "Monitors" });
    this.note = element("p", { class: "mx-note mx-hidden-note", hidden: true });
    this.targetPanel = new TargetPanel(state, (id) => this.reveal(id), () => this.setTarget(null));
    this.pairs = new PairsPanel(state, () => this.changed(false));
    this.rows = new RowsPanel(state, table, {
      ask,
      give: (evidence) => {
        state.view = "monitors";
        this.replace(evidence);
      },
      evidence: () => state.evidence,
      say: (message) => messages.say(message),
    });
    /** @type {Map<string, MonitorCard>} */
    this.cards = new Map(table.columns.map((axis) => [axis.id, this.card(axis)]));
    const monitors = element("section", { class: "mx-view mx-monitors", "aria-label": "Monitors" }, this.note, this.grid, legend(table));
    this.views = { monitors, pairs: this.pairs.node, rows: this.rows.node };
    const main = element("main", { class: "mx-main" }, ...Object.values(this.views));
    const columns = element("div", { class: "mx-columns" }, main, this.targetPanel.node);
    this.root.replaceChildren(this.head.node, messages.banner, columns, messages.toast, messages.live);
    this.listen();
    this.restore(true);
  }

  /** @param {Axis} axis @returns {MonitorCard} */
  card(axis) {
    const { state } = this;
    const { id } = axis;
    const type = () => openTyping(card, { ask: (name, content) => this.asker.ask(name, content), give: (column, cell) => this.give(column, cell) });
    const card = new MonitorCard(axis, this.table.monitors[id], {
      onPin: () => {
        if (!state.pins.delete(id)) state.pins.add(id);
        this.changed(false);
      },
      onHide: () => {
        state.hidden.add(id);
        this.changed(false);
      },
      onTarget: () => this.setTarget(state.target === id ? null : id),
      onType: type,
      onClear: () => this.give(id, null),
      onMove: (moved) => this.reorder(movedBefore(this.order(), moved, id)),
    });
    listenForGestures(card, {
      cell: () => state.cell(id, this.draft ?? state.evidence),
      now: () => this.monitors[id],
      preview: (cell) => this.preview(id, cell),
      commit: (cell) => this.give(id, cell),
      type,
    });
    card.node.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!event.altKey || !by) return;
      event.preventDefault();
      this.reorder(stepped(this.order(), id, by));
      card.picture.focus();
    });
    return card;
  }

  listen() {
    document.addEventListener("keydown", (event) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
      if (typing || !(event.ctrlKey || event.metaKey) || !this.root.isConnected) return;
      // In a notebook, the keys belong to the widget only while it has the focus.
      if (!this.address && !this.root.contains(document.activeElement)) return;
      const key = event.key.toLowerCase();
      if (key === "z" && !event.shiftKey) this.travel(this.state.undo());
      else if (key === "y" || (key === "z" && event.shiftKey)) this.travel(this.state.redo());
      else return;
      event.preventDefault();
    });
    if (this.address) addEventListener("hashchange", () => this.restore(false));
    const observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const card = this.cards.get(entry.target.getAttribute("data-id") ?? "");
          if (!card) continue;
          card.visible = entry.isIntersecting;
          if (card.visible) card.draw();
        }
      },
      { rootMargin: "600px" },
    );
    for (const card of this.cards.values()) observer.observe(card.node);
  }

  /** @param {boolean} first whether the page was just opened, perhaps once more */
  restore(first) {
    if (this.address) {
      const ignored = this.state.restore(this.address.read());
      if (first) this.state.recall(this.address.kept());
      if (ignored.length) this.messages.say(`The address holds evidence that this model cannot read; it was left out: ${ignored.join(", ")}.`);
    }
    this.changed(true);
  }

  // Evidence ----------------------------------------------------------------------------------

  /** @param {string} id @param {Cell | null} cell */
  give(id, cell) {
    this.replace(this.state.changed(id, cell));
  }

  /** @param {Evidence} evidence */
  replace(evidence) {
    this.draft = null;
    if (!this.state.commit(evidence)) {
      this.monitors = this.settled;
      this.draw();
      return;
    }
    this.previous = this.settled;
    this.changed(true);
  }

  /** @param {boolean} moved whether undo or redo did anything */
  travel(moved) {
    if (!moved) return;
    this.previous = this.settled;
    this.changed(true);
  }

  /** @param {string} id @param {Cell | null} cell evidence of a drag under way */
  async preview(id, cell) {
    const since = performance.now();
    const first = this.draft === null;
    this.draft = this.state.changed(id, cell);
    if (first) this.draw();
    const now = this.drag.given(id, cell, this.draft);
    if (!(now instanceof Promise)) {
      this.showDraft(id, now, since);
      return;
    }
    this.drawOne(id);
    const reply = await now;
    if (!reply || this.draft === null) return;
    if (reply.error) this.messages.say(reply.error);
    else this.showDraft(id, reply, since);
  }

  /** @param {string} id @param {import("./transport.js").Reply} found @param {number} since when the pointer moved */
  showDraft(id, found, since) {
    this.monitors = { ...this.monitors, ...found.columns };
    this.bar.show(this.state, this.draft ?? this.state.evidence);
    this.bar.showProbability(found.evidence, true);
    for (const column of [...Object.keys(found.columns), id]) this.drawOne(column);
    this.root.dispatchEvent(new CustomEvent("mx-drawn", { detail: { since } }));
  }

  /** @param {boolean} asks whether the evidence changed, so that everything is asked anew */
  changed(asks) {
    const { state } = this;
    this.address?.write(state.saved());
    this.address?.keep(state.history());
    this.head.sync();
    this.bar.show(state, state.evidence);
    if (!Object.keys(state.evidence).length) this.bar.showProbability(null, false);
    for (const [view, node] of Object.entries(this.views)) node.hidden = view !== state.view;
    this.arrange();
    this.draw();
    if (asks) this.refresh();
    else {
      this.refreshTarget();
      this.refreshView();
    }
  }

  /** Show the evidence at once, then to all digits. */
  async refresh() {
    const { evidence } = this.state;
    if (!(await this.refreshMonitors("monitors", evidence))) return;
    this.refreshData(evidence);
    this.refreshTarget();
    this.refreshView();
    if (!Object.keys(evidence).length) return this.announce();
    this.refreshOwn(evidence);
    if (await this.refreshMonitors("exact", evidence)) this.announce();
  }

  /** @param {"monitors" | "exact"} ask @param {Evidence} evidence @returns {Promise<boolean>} whether the evidence was answered */
  async refreshMonitors(ask, evidence) {
    const { state } = this;
    const reply = await this.asker.ask(ask, { evidence });
    if (!reply || state.evidence !== evidence) return false;
    if (reply.error) {
      this.messages.say(reply.error);
      if (ask === "monitors") {
        state.reject();
        this.monitors = this.settled;
        this.changed(false);
      }
      return false;
    }
    this.settled = { ...this.settled, ...reply.columns };
    this.bar.showProbability(reply.evidence, Object.keys(evidence).length > 0);
    this.root.dataset.shown = ask;
    if (this.draft) return true;
    this.monitors = { ...this.monitors, ...reply.columns };
    this.arrange();
    this.draw();
    return true;
  }

  /** Ask again in a while: nothing answered. */
  tryAgain() {
    clearTimeout(this.trying);
    this.trying = setTimeout(() => this.refresh(), AGAIN);
  }

  /** @param {Evidence} evidence */
  async refreshOwn(evidence) {
    const reply = await this.asker.ask("own", { evidence });
    if (!reply || reply.error || this.state.evidence !== evidence) return;
    this.settled = { ...this.settled, ...reply.columns };
    if (this.draft) return;
    this.monitors = { ...this.monitors, ...reply.columns };
    this.draw();
  }

  /** @param {Evidence} evidence */
  async refreshData(evidence) {
    if (this.table.rows === null) return;
    const reply = await this.asker.ask("data", { evidence });
    if (!reply || reply.error || this.state.evidence !== evidence) return;
    this.data = /** @type {any} */ (reply);
    this.bar.showRows(this.data);
    this.draw();
  }

  async refreshTarget() {
    const { target, evidence, view } = this.state;
    this.targetPanel.node.hidden = target === null || view !== "monitors";
    if (target === null || view !== "monitors") return;
    const key = JSON.stringify([target, evidence]);
    if (key === this.targetKey) return;
    this.targetPanel.wait(target);
    const reply = await this.asker.ask("target", { target, evidence });
    if (!reply || this.state.target !== target) return;
    if (reply.error) {
      this.messages.say(reply.error);
      return;
    }
    this.targetKey = key;
    this.information = new Map(reply.ranking.map((/** @type {any} */ line) => [line.id, line.nats]));
    this.targetPanel.show(target, /** @type {any} */ (reply));
    if (this.state.sort === "target") this.arrange();
  }

  async refreshView() {
    const { view, pair, evidence } = this.state;
    if (view === "rows") this.rows.open();
    if (view !== "pairs") return;
    this.pairs.sync();
    const reply = await this.asker.ask("pair", { x: pair[0], y: pair[1], evidence });
    if (!reply || this.state.view !== "pairs") return;
    if (reply.error) this.messages.say(reply.error);
    else this.pairs.show(/** @type {any} */ (reply));
  }

  // Showing -----------------------------------------------------------------------------------

  /** @returns {Record<string, Monitor>} what the faint lines show */
  before() {
    if (this.state.against === "none") return this.table.monitors;
    return this.draft ? this.settled : this.previous;
  }

  draw() {
    for (const id of this.cards.keys()) this.drawOne(id);
  }

  /** @param {string} id */
  drawOne(id) {
    const { draft, state } = this;
    const data = this.data && Object.hasOwn(this.data.columns, id) ? this.data.columns[id] : null;
    this.cards.get(id)?.update({
      now: this.monitors[id],
      before: this.before()[id],
      cell: state.cell(id, draft ?? state.evidence),
      data: draft ? null : data,
      pinned: state.pins.has(id),
      target: state.target === id,
      drag: draft !== null,
      idle: !Object.keys(draft ?? state.evidence).length,
    });
  }

  /** @returns {string[]} */
  order() {
    return ordered(this.state, { now: this.monitors, before: this.before(), information: this.information });
  }

  arrange() {
    const { state, grid } = this;
    const shown = shownOf(state, this.order(), this.search);
    const nodes = shown.map((id) => /** @type {MonitorCard} */ (this.cards.get(id)).node);
    const same = nodes.length === grid.childElementCount && nodes.every((node, i) => grid.children[i] === node);
    if (!same) {
      const active = /** @type {HTMLElement | null} */ (document.activeElement);
      grid.replaceChildren(...nodes);
      if (active && grid.contains(active)) active.focus({ preventScroll: true });
    }
    const count = state.hidden.size;
    const show = element("button", { type: "button", class: "mx-link", onclick: () => (state.hidden.clear(), this.changed(false)) }, "Show all");
    const hidden = count ? [`${count} column${count === 1 ? " is" : "s are"} hidden. `, show] : [];
    const none = shown.length || !this.search ? [] : [`No column matches “${this.search}”. `];
    this.note.replaceChildren(...none, ...hidden);
    this.note.hidden = !this.note.hasChildNodes();
  }

  /** @param {string[]} order */
  reorder(order) {
    this.state.order = order;
    this.state.sort = "mine";
    this.changed(false);
  }

  /** @param {string | null} id */
  setTarget(id) {
    this.state.target = id;
    this.changed(false);
  }

  /** @param {string} id */
  reveal(id) {
    this.state.hidden.delete(id);
    this.state.view = "monitors";
    this.changed(false);
    const card = this.cards.get(id);
    card?.node.scrollIntoView({ block: "center", behavior: "smooth" });
    card?.picture.focus({ preventScroll: true });
  }

  // Words -------------------------------------------------------------------------------------

  /** @param {keyof typeof COPIES} kind */
  async copy(kind) {
    const reply = await this.asker.ask("texts", { evidence: this.state.evidence, target: this.state.target });
    if (!reply || reply.error) {
      this.messages.say(reply?.error ?? "The question could not be read.");
      return;
    }
    const text = reply[kind] || "# No evidence and no target: there is no question yet.";
    this.root.dataset.copied = text;
    try {
      await navigator.clipboard.writeText(text);
      this.messages.say(`Copied as ${COPIES[kind]}: ${text.split("\n").pop()}`, false);
    } catch {
      this.messages.say(text, false);
    }
  }

  announce() {
    const parts = Object.entries(this.state.evidence).map(([id, cell]) => {
      const axis = this.state.byId.get(id);
      return axis ? cellText(axis, cell) : id;
    });
    const given = parts.length ? `Given ${parts.join(", ")}` : "No evidence";
    this.messages.announce(`${given}. ${this.bar.probability.textContent}`);
  }

  toggleTheme() {
    // The first part of the colour of text: bright on dark paper.
    const dark = Number(getComputedStyle(this.root).color.match(/[\d.]+/)?.[0]) > 127;
    this.root.dataset.theme = dark ? "light" : "dark";
  }
}

/** @param {Table} table @returns {HTMLElement} */
function legend(table) {
  const data = table.rows === null ? [] : [element("i", { class: "mx-key-data" }), "rows of the data that agree"];
  return element(
    "div",
    { class: "mx-note mx-legend" },
    element("p", {}, element("i", { class: "mx-key-now" }), "model given the evidence", element("i", { class: "mx-key-before" }), "before", ...data),
    element("p", {}, "Click for a value, drag for a range, drag a bar's end for soft evidence. Keys: arrows, Shift+arrows, Enter to type, Escape for unknown, Ctrl+Z, Alt+arrows to move a column."),
  );
}
