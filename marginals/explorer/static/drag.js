/** A drag under way: one request brings the monitors for every value of the dragged column. */

import { Sweep } from "./sweep.js";

/**
 * @typedef {import("./types.js").Axis} Axis
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Evidence} Evidence
 * @typedef {import("./sweep.js").Swept} Swept
 * @typedef {import("./transport.js").Reply} Reply
 *
 * @typedef {object} DragHooks
 * @property {(ask: string, content: object) => Promise<Reply | null>} ask
 * @property {Map<string, Axis>} axes
 * @property {() => string[]} inSight The columns to show.
 */

// Milliseconds to wait for a sweep before moves are asked about one by one.
const SWEEP_PATIENCE = 500;

export class Drag {
  /** @param {DragHooks} hooks */
  constructor(hooks) {
    this.hooks = hooks;
    this.key = "";
    this.started = 0;
    /** @type {Sweep | null} */
    this.sweep = null;
    /** @type {Promise<unknown>} */
    this.arrival = Promise.resolve();
    this.move = 0;
  }

  /**
   * Return the monitors given evidence with a cell of one column: at once from a sweep that has
   * arrived, else as soon as it arrives or, if that takes long, by a request of its own.
   *
   * @param {string} id
   * @param {Cell | null} cell
   * @param {Evidence} evidence with the cell
   * @returns {Swept | Promise<Reply | null>} null if a newer move has taken over
   */
  given(id, cell, evidence) {
    this.move += 1;
    const columns = this.hooks.inSight();
    this.prepare(id, evidence, columns);
    return (cell && this.sweep?.given(cell)) || this.later(cell, evidence, columns);
  }

  /** @param {Cell | null} cell @param {Evidence} evidence @param {string[]} columns @returns {Promise<Reply | null>} */
  async later(cell, evidence, columns) {
    const { move } = this;
    const left = this.started + SWEEP_PATIENCE - performance.now();
    if (!this.sweep && left > 0) await Promise.race([this.arrival, new Promise((resolve) => setTimeout(resolve, left))]);
    if (move !== this.move) return null;
    return (cell && this.sweep?.given(cell)) || this.hooks.ask("monitors", { evidence, columns });
  }

  /** @param {string} id @param {Evidence} evidence @param {string[]} columns */
  prepare(id, evidence, columns) {
    const others = { ...evidence };
    delete others[id];
    const key = JSON.stringify([id, others, columns]);
    const axis = this.hooks.axes.get(id);
    if (key === this.key || !axis) return;
    this.key = key;
    this.sweep = null;
    this.started = performance.now();
    this.arrival = this.hooks.ask("sweep", { column: id, evidence: others, columns }).then((reply) => {
      if (!reply || reply.error || this.key !== key) return;
      this.sweep = new Sweep(axis, this.hooks.axes, /** @type {any} */ (reply));
    });
  }
}
