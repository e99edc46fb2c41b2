/** The widget: the explorer over a notebook's messages. */

import { startExplorer } from "./explorer.js";
import { messageTransport } from "./transport.js";

const KERNEL_AWAY = "The kernel does not answer: it is busy, or it has ended. The widget goes on when it answers.";

/** @param {{model: any, el: HTMLElement}} context of anywidget */
function render({ model, el }) {
  const root = document.createElement("div");
  root.classList.add("mx-widget");
  el.append(root);
  startExplorer(root, messageTransport(model), null, KERNEL_AWAY);
  return () => root.remove();
}

export default { render };
