/** The explorer: all parts together, over any transport. */

import { EvidenceBar } from "./evidence_bar.js";
import { cellText } from "./format.js";
import { listenForGestures } from "./gestures.js";
import { MonitorCard, distance } from "./monitor.js";
import { PairsPanel } from "./pairs_panel.js";
import { RowsPanel } from "./rows_panel.js";
import { State } from "./state.js";
import { element, iconButton } from "./svg.js";
import { TargetPanel } from "./target_panel.js";
import { Asker } from "./transport.js";

/**
 * @typedef {import("./types.js").Axis} Axis
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Evidence} Evidence
 * @typedef {import("./types.js").Monitor} Monitor
 * @typedef {import("./types.js").DataFacts} DataFacts
 * @typedef {import("./types.js").Table} Table
 * @typedef {import("./types.js").Saved} Saved
 * @typedef {import("./transport.js").Transport} Transport
 * @typedef {{read: () => unknown, write: (saved: Saved) => void}} Address
 */

const VIEWS = /** @type {const} */ (["monitors", "pairs", "rows"]);

/**
 * @param {HTMLElement} root
 * @param {Transport} transport
 * @param {Address | null} address where the state is kept, if anywhere
 * @returns {Promise<Explorer | null>}
 */
export async function startExplorer(root, transport, address) {
  root.classList.add("mx");
  const banner = element("p", { class: "mx-banner", role: "alert", hidden: true });
  const asker = new Asker(transport, (reached) => {
    banner.hidden = reached;
    if (!reached) banner.textContent = "The server does not answer. Is `marginals explore` still running? The page goes on when it is back at the same address.";
  });
  const table = await asker.ask("table");
  if (!table || table.error) {
    banner.hidden = false;
    if (table?.error) banner.textContent = table.error;
    root.replaceChildren(banner);
    return null;
  }
  return new Explorer(root, asker, /** @type {any} */ (table), banner, address);
}

export class Explorer {
  /** @param {HTMLElement} root @param {Asker} asker @param {Table} table @param {HTMLElement} banner @param {Address | null} address */
  constructor(root, asker, table, banner, address) {
    this.root = root;
    this.asker = asker;
    this.table = table;
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
    this.hiding = 0;
    this.banner = banner;
    const { state } = this;
    this.bar = new EvidenceBar((id) => this.give(id, null), (id) => this.reveal(id));
    this.live = element("div", { class: "mx-live", role: "status", "aria-live": "polite" });
    this.toast = element("p", { class: "mx-toast", role: "alert", hidden: true });
    this.grid = element("div", { class: "mx-grid", role: "list", "aria-label": "Monitors" });
    this.hiddenNote = element("p", { class: "mx-note mx-hidden-note", hidden: true });
    this.targetPanel = new TargetPanel(state, (id) => this.reveal(id));
    this.pairs = new PairsPanel(state, () => this.changed(false));
    this.rows = new RowsPanel(state, table, {
      ask: (ask, content) => this.asker.ask(ask, content),
      give: (evidence) => {
        state.view = "monitors";
        this.replace(evidence);
      },
      evidence: () => state.evidence,
      say: (message) => this.say(message),
    });
    /** @type {Map<string, MonitorCard>} */
    this.cards = new Map(table.columns.map((axis) => [axis.id, this.card(axis)]));
    const legend = element(
      "p",
      { class: "mx-note mx-legend" },
      element("i", { class: "mx-key-now" }),
      "model given the evidence",
      element("i", { class: "mx-key-before" }),
      "before",
      ...(table.rows === null ? [] : [element("i", { class: "mx-key-data" }), "rows of the data that agree"]),
      " · click for a value, drag for a range, drag a bar's end for soft evidence; keys: arrows, Shift+arrows, Enter, Escape, Ctrl+Z, Alt+arrows to move a column",
    );
    const monitors = element("section", { class: "mx-view mx-monitors", "aria-label": "Monitors" }, this.hiddenNote, this.grid, legend);
    this.views = { monitors, pairs: this.pairs.node, rows: this.rows.node };
    this.undo = iconButton("undo", "Undo (Ctrl+Z)", () => this.travel(state.undo()));
    this.redo = iconButton("redo", "Redo (Ctrl+Y)", () => this.travel(state.redo()));
    this.tabs = VIEWS.map((view) => element("button", { type: "button", role: "tab", "data-view": view, onclick: () => this.open(view) }, view[0].toUpperCase() + view.slice(1)));
    this.find = element("input", { type: "search", placeholder: "Search columns", "aria-label": "Search columns" });
    this.find.addEventListener("input", () => {
      this.search = this.find.value.trim().toLowerCase();
      this.arrange();
    });
    this.sort = select("Order of the columns", { table: "Table order", name: "By name", changed: "Most changed first", target: "By information about the target", mine: "My order" }, (value) => {
      state.sort = value;
      this.changed(false);
    });
    this.against = select("Compare with", { previous: "Compare: last step", none: "Compare: no evidence" }, (value) => {
      state.against = value;
      this.changed(false);
    });
    this.choice = select("Target", { "": "No target", ...Object.fromEntries(state.axes.map((axis) => [axis.id, `Target: ${axis.id}`])) }, (value) => {
      state.target = value || null;
      this.changed(false);
    });
    const main = element("main", { class: "mx-main" }, monitors, this.pairs.node, this.rows.node);
    this.root.replaceChildren(this.head(), this.banner, this.toast, element("div", { class: "mx-columns" }, main, this.targetPanel.node), this.live);
    this.restore();
    this.listen();
  }

    /** @returns {HTMLElement} */
  head() {
    const clear = element("button", { type: "button", onclick: () => this.replace({}) }, "Clear all");
    const copies = /** @type {const} */ (["python", "query", "command"]).map((kind) =>
      element("button", { type: "button", "data-copy": kind, title: `Copy this question as ${names[kind]}`, onclick: () => this.copy(kind) }, names[kind]),
    );
    const theme = iconButton("theme", "Light or dark", () => this.toggleTheme());
    const title = element("h1", {}, "marginals ", element("small", {}, this.table.model.split(/[\\/]/).pop() ?? ""));
    return element(
      "header",
      { class: "mx-head" },
      element("div", { class: "mx-top" }, title, element("div", { class: "mx-tabs", role: "tablist" }, ...this.tabs), this.choice, this.sort, this.against, this.find, theme),
      element("div", { class: "mx-under" }, this.undo, this.redo, clear, this.bar.node, element("span", { class: "mx-copy" }, "Copy as ", ...copies)),
    );
  }

  /** @param {Axis} axis @returns {MonitorCard} */
  card(axis) {
    const { state } = this;
    /** @param {Set<string>} set @param {string} id */
    const flip = (set, id) => (set.has(id) ? set.delete(id) : set.add(id));
    const card = new MonitorCard(axis, this.table.monitors[axis.id], {
      onPin: () => (flip(state.pins, axis.id), this.changed(false)),
      onHide: () => (state.hidden.add(axis.id), this.changed(false)),
      onTarget: () => ((state.target = state.target === axis.id ? null : axis.id), this.changed(false)),
      onType: () => this.type(card),
      onClear: () => this.give(axis.id, null),
      onMove: (moved, before) => this.move(moved.id, before),
    });
    card.node.setAttribute("role", "listitem");
    listenForGestures(card, {
      cell: () => (this.draft ?? state.evidence)[axis.id] ?? null,
      now: () => this.monitors[axis.id],
      preview: (cell) => this.preview(state.changed(axis.id, cell)),
      commit: (cell) => this.give(axis.id, cell),
      type: () => this.type(card),
    });
    card.node.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.altKey && by) {
        this.step(axis.id, by);
        event.preventDefault();
      }
    });
    return card;
  }

  listen() {
    document.addEventListener("keydown", (event) => {
      const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
      if (typing || !(event.ctrlKey || event.metaKey) || !this.root.isConnected) return;
      const key = event.key.toLowerCase();
      if (key === "z" && !event.shiftKey) this.travel(this.state.undo());
      else if (key === "y" || (key === "z" && event.shiftKey)) this.travel(this.state.redo());
      else return;
      event.preventDefault();
    });
    if (this.address) addEventListener("hashchange", () => this.restore());
    const observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const card = this.cards.get(entry.target.getAttribute("data-id") ?? "");
          if (!card) continue;
          card.visible = entry.isIntersecting;
          if (card.visible) card.draw();
        }
      },
      { rootMargin: "300px" },
    );
    for (const card of this.cards.values()) observer.observe(card.node);
  }

  restore() {
    if (this.address) this.state.restore(this.address.read());
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

  /** @param {Evidence} evidence of a drag under way */
  async preview(evidence) {
    this.draft = evidence;
    this.bar.show(this.state, evidence);
    this.drawGiven();
    const columns = [...this.cards.values()].filter((card) => card.visible).map((card) => card.axis.id);
    const reply = await this.asker.ask("monitors", { evidence, columns });
    if (!reply || this.draft === null) return;
    if (reply.error) {
      this.say(reply.error);
      return;
    }
    this.monitors = { ...this.monitors, ...reply.columns };
    this.bar.showProbability(reply.evidence, true);
    this.draw();
  }

  /** @param {boolean} asks whether the evidence changed, so that everything is asked anew */
  changed(asks) {
    this.address?.write(this.state.saved());
    this.sync();
    this.arrange();
    this.draw();
    if (asks) this.refresh();
    else {
      this.refreshTarget();
      this.refreshView();
    }
  }

  async refresh() {
    const { state } = this;
    const evidence = state.evidence;
    const any = Object.keys(evidence).length > 0;
    const reply = await this.asker.ask("monitors", { evidence });
    if (!reply || state.evidence !== evidence) return;
    if (reply.error) {
      this.say(reply.error);
      state.reject();
      this.monitors = this.settled;
      this.changed(false);
      return;
    }
    this.monitors = { ...this.monitors, ...reply.columns };
    this.settled = this.monitors;
    this.bar.showProbability(reply.evidence, any);
    this.arrange();
    this.draw();
    this.announce();
    this.refreshData(evidence);
    this.refreshTarget();
    this.refreshView();
    if (any) this.refreshOwn(evidence);
  }

  /** @param {Evidence} evidence */
  async refreshOwn(evidence) {
    const reply = await this.asker.ask("own", { evidence });
    if (!reply || reply.error || this.state.evidence !== evidence) return;
    this.monitors = { ...this.monitors, ...reply.columns };
    this.settled = this.monitors;
    if (!this.draft) this.draw();
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
    const { target, evidence } = this.state;
    this.targetPanel.node.toggleAttribute("hidden", target === null || this.state.view !== "monitors");
    if (target === null || this.state.view !== "monitors") return;
    const key = JSON.stringify([target, evidence]);
    if (key === this.targetKey) return;
    this.targetPanel.wait(target);
    const reply = await this.asker.ask("target", { target, evidence });
    if (!reply || this.state.target !== target) return;
    if (reply.error) {
      this.say(reply.error);
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
    if (reply.error) this.say(reply.error);
    else this.pairs.show(/** @type {any} */ (reply));
  }

  // Showing -----------------------------------------------------------------------------------

  sync() {
    const { state } = this;
    this.bar.show(state, state.evidence);
    if (!Object.keys(state.evidence).length) this.bar.showProbability(null, false);
    this.undo.disabled = !state.past.length;
    this.redo.disabled = !state.future.length;
    this.sort.value = state.sort;
    this.against.value = state.against;
    this.choice.value = state.target ?? "";
    for (const tab of this.tabs) tab.setAttribute("aria-selected", String(tab.dataset.view === state.view));
    for (const view of VIEWS) this.views[view].toggleAttribute("hidden", view !== state.view);
  }

  /** @returns {Record<string, Monitor> | null} what the faint lines show */
  before() {
    if (this.state.against === "none") return this.table.monitors;
    return this.draft ? this.settled : this.previous;
  }

  draw() {
    for (const id of this.cards.keys()) this.drawOne(id);
  }

  drawGiven() {
    for (const id of Object.keys(this.draft ?? {})) this.drawOne(id);
  }

  /** @param {string} id */
  drawOne(id) {
    const evidence = this.draft ?? this.state.evidence;
    this.cards.get(id)?.update({
      now: this.monitors[id],
      before: this.before()?.[id] ?? null,
      cell: evidence[id] ?? null,
      data: this.draft ? null : (this.data?.columns[id] ?? null),
      pinned: this.state.pins.has(id),
      target: this.state.target === id,
    });
  }

  arrange() {
    const { state } = this;
    const order = this.ordered().filter((id) => !state.hidden.has(id) && id.toLowerCase().includes(this.search));
    const pinned = order.filter((id) => state.pins.has(id));
    const shown = [...pinned, ...order.filter((id) => !state.pins.has(id))];
    const nodes = shown.map((id) => /** @type {MonitorCard} */ (this.cards.get(id)).node);
    const same = nodes.length === this.grid.childElementCount && nodes.every((node, i) => this.grid.children[i] === node);
    if (!same) {
      const active = /** @type {HTMLElement | null} */ (document.activeElement);
      this.grid.replaceChildren(...nodes);
      if (active && this.grid.contains(active)) active.focus({ preventScroll: true });
    }
    const count = state.hidden.size;
    this.hiddenNote.toggleAttribute("hidden", !count);
    const show = element("button", { type: "button", class: "mx-link", onclick: () => (state.hidden.clear(), this.changed(false)) }, "Show all");
    this.hiddenNote.replaceChildren(`${count} column${count === 1 ? " is" : "s are"} hidden. `, show);
  }

  /** @returns {string[]} */
  ordered() {
    const { state } = this;
    const ids = state.axes.map((axis) => axis.id);
    if (state.sort === "mine") return state.order;
    if (state.sort === "name") return ids.sort((a, b) => a.localeCompare(b));
    /** @param {(id: string) => number} by */
    const descending = (by) => ids.map((id, i) => ({ id, i, by: by(id) })).sort((a, b) => b.by - a.by || a.i - b.i).map((x) => x.id);
    if (state.sort === "changed") {
      const before = this.before();
      return descending((id) => (state.evidence[id] ? 2 : before ? distance(this.monitors[id], before[id]) : 0));
    }
    if (state.sort === "target") return descending((id) => (id === state.target ? Infinity : (this.information.get(id) ?? -1)));
    return ids;
  }

  /** @param {string} id @param {string} before */
  move(id, before) {
    const { state } = this;
    const order = this.ordered().filter((other) => other !== id);
    order.splice(order.indexOf(before), 0, id);
    state.order = order;
    state.sort = "mine";
    this.changed(false);
  }

  /** @param {string} id @param {number} by */
  step(id, by) {
    const order = [...this.ordered()];
    const at = order.indexOf(id);
    const to = Math.min(order.length - 1, Math.max(0, at + by));
    order.splice(to, 0, ...order.splice(at, 1));
    this.state.order = order;
    this.state.sort = "mine";
    this.changed(false);
    this.cards.get(id)?.picture.focus();
  }

  /** @param {(typeof VIEWS)[number]} view */
  open(view) {
    this.state.view = view;
    this.changed(false);
  }

  /** @param {string} id */
  reveal(id) {
    this.state.hidden.delete(id);
    if (this.state.view !== "monitors") this.state.view = "monitors";
    this.changed(false);
    const card = this.cards.get(id);
    card?.node.scrollIntoView({ block: "center", behavior: "smooth" });
    card?.picture.focus({ preventScroll: true });
  }

  // Words -------------------------------------------------------------------------------------

  /** @param {MonitorCard} card */
  type(card) {
    card.node.querySelector(".mx-typing")?.remove();
    const { axis } = card;
    const example = axis.family === "category" ? axis.labels.slice(0, 2).join(", ") : "13, 10..14, > 12, unknown";
    const field = element("input", { type: "text", placeholder: example, "aria-label": `Evidence on ${axis.id}: a value, a range, a set or unknown` });
    const form = element("form", { class: "mx-typing" }, field, element("button", {}, "Give"));
    const close = () => {
      form.remove();
      card.picture.focus({ preventScroll: true });
    };
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const reply = await this.asker.ask("typed", { column: axis.id, text: field.value });
      if (!reply) return;
      if (reply.error) {
        this.say(reply.error);
        return;
      }
      close();
      this.give(axis.id, reply.cell);
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
      event.stopPropagation();
    });
    card.picture.after(form);
    field.focus();
  }

  /** @param {keyof typeof names} kind */
  async copy(kind) {
    const reply = await this.asker.ask("texts", { evidence: this.state.evidence, target: this.state.target });
    if (!reply || reply.error) {
      this.say(reply?.error ?? "The question could not be read.");
      return;
    }
    const text = reply[kind] || "# No evidence and no target: there is no question yet.";
    this.root.dataset.copied = text;
    try {
      await navigator.clipboard.writeText(text);
      this.say(`Copied as ${names[kind]}: ${text.split("\n").pop()}`, false);
    } catch {
      this.say(text, false);
    }
  }

  /** @param {string} message @param {boolean} [bad] */
  say(message, bad = true) {
    this.toast.textContent = message;
    this.toast.classList.toggle("mx-bad", bad);
    this.toast.hidden = false;
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => this.toast.toggleAttribute("hidden", true), 8000);
  }

  announce() {
    const parts = Object.entries(this.state.evidence).map(([id, cell]) => {
      const axis = this.state.byId.get(id);
      return axis ? cellText(axis, cell) : id;
    });
    this.live.textContent = `${parts.length ? `Given ${parts.join(", ")}` : "No evidence"}. ${this.bar.probability.textContent}`;
  }

  toggleTheme() {
    const dark = this.root.dataset.theme ? this.root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    this.root.dataset.theme = dark ? "light" : "dark";
  }
}

const names = { python: "Python", query: "query", command: "command line" };

/** @param {string} label @param {Record<string, string>} options @param {(value: string) => void} onChange */
function select(label, options, onChange) {
  const node = element("select", { "aria-label": label, title: label });
  node.append(...Object.entries(options).map(([value, text]) => element("option", { value }, text)));
  node.addEventListener("change", () => onChange(node.value));
  return node;
}
