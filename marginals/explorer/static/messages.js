/** What the page says: a banner while the server is away, short messages, and words for screen readers. */

import { element } from "./svg.js";

const SECONDS = 8;

export class Messages {
  constructor() {
    this.banner = element("p", { class: "mx-banner", role: "alert", hidden: true });
    this.text = element("span", {});
    const close = element("button", { type: "button", class: "mx-link", "aria-label": "Close this message", onclick: () => this.hide() }, "×");
    this.toast = element("div", { class: "mx-toast", role: "alert", hidden: true }, this.text, close);
    this.live = element("div", { class: "mx-live", role: "status", "aria-live": "polite" });
    this.hiding = 0;
  }

  /** @param {string | null} text of the banner, which stays; null for none */
  warn(text) {
    this.banner.hidden = text === null;
    this.banner.textContent = text ?? "";
  }

  /** @param {string} message @param {boolean} [bad] */
  say(message, bad = true) {
    this.text.textContent = message;
    this.toast.classList.toggle("mx-bad", bad);
    this.toast.hidden = false;
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => this.hide(), SECONDS * 1000);
  }

  hide() {
    this.toast.hidden = true;
  }

  /** @param {string} text read out by screen readers */
  announce(text) {
    this.live.textContent = text;
  }
}
