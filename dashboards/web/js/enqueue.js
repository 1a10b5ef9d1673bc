// The form for a configuration that a person wants to be tried next.

import { el, fill } from "./dom.js";
import { domains } from "./space.js";

/**
 * Asks for a configuration.
 * @param {object} space the job's space
 * @param {Record<string, unknown>} near values to begin with, by full path or as the space names them
 * @returns {Promise<Record<string, unknown>|null>} parameter -> value, or null when it was given up
 */
export function askForParams(space, near) {
  const dialog = document.getElementById("enqueue-form");
  const form = dialog.querySelector("form");
  const fields = domains(space).map((domain) => field(domain, valueNear(near, domain.name)));
  fill(document.getElementById("enqueue-fields"), ...fields.map(({ element }) => element));
  dialog.showModal();
  return new Promise((resolve) => {
    form.onsubmit = () =>
      resolve(Object.fromEntries(fields.map(({ name, read }) => [name, read()]).filter(([, value]) => value !== null)));
    document.getElementById("enqueue-no").onclick = () => dialog.close();
    // The close event comes late; a form that was opened again must not be answered by it.
    dialog.onclose = () => {
      if (!dialog.open) resolve(null);
    };
  });
}

/** A short name of the space stands for a path that ends with it. */
function valueNear(near, name) {
  const path = Object.keys(near).find((key) => key === name || key.endsWith(`.${name}`));
  return path === undefined ? null : near[path];
}

function field(domain, value) {
  const { name, options } = domain;
  if (options) {
    const choices = options.map((option, at) =>
      el("option", { value: at, selected: JSON.stringify(option) === JSON.stringify(value) }, show(option)),
    );
    const input = el("select", { name }, el("option", { value: "" }, "its own value"), ...choices);
    return { name, element: labelled(name, input), read: () => (input.value === "" ? null : options[input.value]) };
  }
  const bounds = { min: domain.low, max: domain.high, step: domain.whole ? 1 : "any" };
  const input = el("input", { name, type: "number", value, placeholder: `${domain.low} to ${domain.high}`, ...bounds });
  return { name, element: labelled(name, input), read: () => (input.value === "" ? null : Number(input.value)) };
}

function labelled(name, input) {
  return el("label", {}, el("span", {}, name), input);
}

function show(option) {
  return typeof option === "string" ? option : JSON.stringify(option);
}
