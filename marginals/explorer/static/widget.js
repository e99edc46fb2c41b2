/** The widget: the explorer over a notebook's messages. */

import { startExplorer } from "./explorer.js";
import { messageTransport } from "./transport.js";

/** @param {{model: any, el: HTMLElement}} context of anywidget */
function render({ model, el }) {
  const root = document.createElement("div");
  root.classList.add("mx-widget");
  el.append(root);
  startExplorer(root, messageTransport(model), null);
  return () => root.remove();
}

export default { render };
