/** Elements of the page and of pictures, and saving both. */

const SVG_SPACE = "http://www.w3.org/2000/svg";

/**
 * @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes
 */

/** @param {Element} node @param {Attributes} attributes of which those that stay are left alone */
export function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === null || value === undefined || value === false) node.removeAttribute(name);
    else {
      const text = value === true ? "" : String(value);
      if (node.getAttribute(name) !== text) node.setAttribute(name, text);
    }
  }
}

/** @param {Element} node @param {string} text left alone if it stays */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG_SPACE, tag);
  setAttributes(node, attributes);
  node.append(...children);
  return /** @type {SVGElementTagNameMap[K]} */ (node);
}

const ICONS = {
  pin: "M6 1h4l-.6 4 2.6 2.5v1.2H8.7L8 15l-.7-6.3H4V7.5L6.600 5z",
  target: "M8 1v3M8 12v3M1 8h3M12 8h3M8 4.500a3.500 3.500 0 1 0 .01 0zM8 7.200a.8.8 0 1 0 .01 0z",
  hide: "M2 8s2.200-4 6-4 6 4 6 4-2.200 4-6 4-6-4-6-4zM3 13 13 3",
  type: "M3 13l.7-3L11 2.700 13.300 5 6 12.300zM3 13h10",
  save: "M8 2v8M4.500 7 8 10.500 11.500 7M3 13.500h10",
  clear: "M4 4l8 8M12 4l-8 8",
  undo: "M6 3 2.500 6.500 6 10M3 6.500h6a4 4 0 0 1 0 8H6",
  redo: "M10 3l3.500 3.500L10 10M13 6.500H7a4 4 0 0 0 0 8h3",
  theme: "M8 2a6 6 0 1 0 .01 0zM8 2v12",
  left: "M10 3 5 8l5 5",
  right: "M6 3l5 5-5 5",
};

/** @param {keyof typeof ICONS} name @returns {SVGElement} */
export function icon(name) {
  const path = shape("path", { d: ICONS[name] });
  return shape("svg", { viewBox: "0 0 16 16", class: "mx-icon", "aria-hidden": "true" }, path);
}

/**
 * @param {keyof typeof ICONS} name
 * @param {string} label read by screen readers and shown on hover
 * @param {(event: any) => void} onclick
 */
export function iconButton(name, label, onclick) {
  return element("button", { type: "button", class: "mx-small", title: label, "aria-label": label, onclick }, icon(name));
}

/** @param {string} text @param {string} name @param {string} type */
export function download(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-size", "font-family", "font-weight", "text-anchor", "display"];

/**
 * Save a picture as it looks now, with its style written into it.
 *
 * @param {SVGSVGElement} picture
 * @param {string} title
 */
export function saveSvg(picture, title) {
  const copy = /** @type {SVGSVGElement} */ (picture.cloneNode(true));
  const from = [picture, ...picture.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of STYLED) to[i].setAttribute(name, style.getPropertyValue(name));
    to[i].removeAttribute("class");
    to[i].removeAttribute("tabindex");
  });
  const box = picture.viewBox.baseVal;
  setAttributes(copy, { xmlns: SVG_SPACE, width: box.width * 2, height: box.height * 2 });
  const paper = getComputedStyle(picture.closest(".mx") ?? picture).backgroundColor;
  copy.prepend(shape("rect", { width: box.width, height: box.height, fill: paper }), shape("title", {}, title));
  const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "picture";
  download(new XMLSerializer().serializeToString(copy), `${name}.svg`, "image/svg+xml");
}
