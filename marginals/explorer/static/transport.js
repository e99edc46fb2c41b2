/** How requests reach the session: by fetch from the page, by messages from a notebook. */

/**
 * @typedef {{error?: string, impossible?: boolean, outdated?: boolean} & Record<string, any>} Reply
 * @typedef {(ask: string, number: number, content: object) => Promise<Reply>} Transport
 */

// Milliseconds after which a kernel that has not answered counts as busy or gone.
const PATIENCE = 15_000;

/** @returns {string} an id of this page */
function newPageId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/** @returns {Transport} */
export function fetchTransport() {
  const page = newPageId();
  return async (ask, number, content) => {
    const reply = await fetch("api", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ask, number, page, with: content }),
    });
    return reply.json();
  };
}

/**
 * @param {{send: (content: any) => void, on: (event: string, listener: (content: any) => void) => void}} model
 * @returns {Transport}
 */
export function messageTransport(model) {
  const page = newPageId();
  /** @type {Map<number, (reply: Reply) => void>} */
  const waiting = new Map();
  model.on("msg:custom", (content) => {
    waiting.get(content.number)?.(content.answer);
    waiting.delete(content.number);
  });
  return (ask, number, content) =>
    new Promise((resolve, reject) => {
      waiting.set(number, resolve);
      setTimeout(() => waiting.delete(number) && reject(new Error("no answer")), PATIENCE);
      model.send({ ask, number, page, with: content });
    });
}

/**
 * Ask the session. Of each kind of request one is under way at a time; of those that arrive
 * meanwhile only the newest is sent. Promises of the others resolve to null.
 */
export class Asker {
  /** @param {Transport} transport @param {(reached: boolean) => void} onReach */
  constructor(transport, onReach) {
    this.transport = transport;
    this.onReach = onReach;
    this.number = 0;
    /** @type {Map<string, {content: object, resolve: (reply: Reply | null) => void} | null>} */
    this.under = new Map();
  }

  /** @param {string} ask @param {object} [content] @returns {Promise<Reply | null>} */
  ask(ask, content = {}) {
    return new Promise((resolve) => {
      if (this.under.has(ask)) {
        this.under.get(ask)?.resolve(null);
        this.under.set(ask, { content, resolve });
        return;
      }
      this.under.set(ask, null);
      this.send(ask, content, resolve);
    });
  }

  /** @param {string} ask @param {object} content @param {(reply: Reply | null) => void} resolve */
  async send(ask, content, resolve) {
    this.number += 1;
    try {
      const reply = await this.transport(ask, this.number, content);
      this.onReach(true);
      resolve(reply.outdated ? null : reply);
    } catch {
      this.onReach(false);
      resolve(null);
    }
    const next = this.under.get(ask);
    this.under.delete(ask);
    if (next) {
      this.under.set(ask, null);
      this.send(ask, next.content, next.resolve);
    }
  }
}
