// Builds elements. Text is only ever set as text, so no name from outside can become markup.

/**
 * Creates an element.
 * @param {string} tag
 * @param {Record<string, unknown>} attributes `on` holds listeners; null and false leave an attribute out.
 * @param {...(Node|string|number|null|undefined)} children
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map(asNode));
  return element;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

/** Sets an element's text only when it differs, so that selections and screen readers are left in peace. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replaces an element's children. */
export function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined).map(asNode));
}

/** A job's or a trial's state as a small coloured word. */
export function badge(state) {
  return el("span", { class: `badge state-${state}` }, state);
}

/** A section with a heading. */
export function section(title, name, ...children) {
  return el(
    "section",
    { id: name, "aria-labelledby": `${name}-title` },
    el("h2", { id: `${name}-title` }, title),
    ...children,
  );
}
