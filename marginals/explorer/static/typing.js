/** The field in which evidence on a column is typed. */

import { element } from "./svg.js";

/**
 * @typedef {import("./types.js").Axis} Axis
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./monitor.js").MonitorCard} MonitorCard
 * @typedef {import("./transport.js").Reply} Reply
 *
 * @typedef {object} TypingHooks
 * @property {(ask: string, content: object) => Promise<Reply | null>} ask
 * @property {(id: string, cell: Cell | null) => void} give
 */

/** @param {MonitorCard} card @param {TypingHooks} hooks */
export function openTyping(card, hooks) {
  card.node.querySelector(".mx-typing")?.remove();
  const { axis } = card;
  const field = element("input", {
    type: "text",
    placeholder: example(axis),
    autocomplete: "off",
    "aria-label": `Evidence on ${axis.id}: a value, a range, a set or unknown`,
  });
  const problem = element("p", { class: "mx-problem", role: "alert", hidden: true });
  const form = element("form", { class: "mx-typing" }, field, element("button", {}, "Set"), problem);
  const close = () => {
    form.remove();
    card.picture.focus({ preventScroll: true });
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const reply = await hooks.ask("typed", { column: axis.id, text: field.value });
    if (!reply) return;
    problem.hidden = !reply.error;
    problem.textContent = reply.error ?? "";
    field.setAttribute("aria-invalid", String(Boolean(reply.error)));
    if (reply.error) return;
    close();
    hooks.give(axis.id, reply.cell);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    event.stopPropagation();
  });
  card.picture.after(form);
  field.focus();
}

/** @param {Axis} axis @returns {string} what could be typed */
function example(axis) {
  if (axis.family === "category") return axis.labels.slice(0, 2).join(", ");
  if (axis.family === "time") return "2024-05-01..2024-06-30";
  return "13, 10..14, > 12, unknown";
}
