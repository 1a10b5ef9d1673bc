// The API as the service itself describes it: every route with its parameters, bodies and answers, and a way to ask.

import { el, fill } from "./dom.js";

const METHODS = ["get", "post", "patch", "put", "delete"];
const LONGEST = 20_000;

/** Routes by tag, in the order of the document. */
export function routesByTag(document_) {
  const found = new Map();
  for (const [path, item] of Object.entries(document_.paths)) {
    for (const method of METHODS.filter((name) => item[name])) {
      const tag = item[method].tags?.[0] ?? "other";
      if (!found.has(tag)) found.set(tag, []);
      found.get(tag).push({ path, method, about: item[method] });
    }
  }
  return found;
}

/** What a schema holds, in a few words. */
export function typeOf(schema, schemas, depth = 0) {
  if (!schema) return "";
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return depth ? name : `${name}: ${typeOf(schemas[name], schemas, 1)}`;
  }
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return either.map((one) => typeOf(one, schemas, depth + 1)).join(" | ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `[${typeOf(schema.items, schemas, depth + 1)}]`;
  if (schema.properties && depth < 2) {
    const parts = Object.entries(schema.properties).map(([name, one]) => {
      const optional = (schema.required ?? []).includes(name) ? "" : "?";
      return `${name}${optional}: ${typeOf(one, schemas, depth + 1)}`;
    });
    return `{${parts.join(", ")}}`;
  }
  return schema.type ?? "anything";
}

/** The address of a route with what was filled in. */
export function addressOf(path, parameters, values) {
  let where = path;
  const query = new URLSearchParams();
  for (const one of parameters) {
    const value = values[one.name] ?? "";
    if (one.in === "path") where = where.replace(`{${one.name}}`, encodeURIComponent(value));
    else if (one.in === "query" && value !== "") query.append(one.name, value);
  }
  return query.size ? `${where}?${query}` : where;
}

function contents(content, schemas) {
  const rows = Object.entries(content ?? {}).map(([kind, { schema }]) => `${kind} ${typeOf(schema, schemas)}`);
  return rows.length ? el("code", { class: "shape" }, rows.join("\n")) : null;
}

function parameterRow(one, schemas, inputs) {
  const input = el("input", { "aria-label": one.name, autocomplete: "off" });
  inputs[one.name] = input;
  return el(
    "tr",
    {},
    el("td", {}, el("code", {}, one.name), one.required ? " (required)" : ""),
    el("td", {}, one.in),
    el("td", {}, one.description ?? "", " ", el("span", { class: "quiet-text" }, typeOf(one.schema, schemas))),
    el("td", {}, one.in === "header" ? "" : input),
  );
}

function ask(route, parameters, inputs) {
  const answer = el("pre", { class: "answer", hidden: true });
  const send = async () => {
    const values = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
    const where = addressOf(route.path, parameters, values);
    answer.hidden = false;
    answer.textContent = "...";
    try {
      const found = await fetch(where, { headers: { Accept: "application/json, text/plain" } });
      const text = await found.text();
      answer.textContent = `GET ${where}\n${found.status}\n\n${text.slice(0, LONGEST)}`;
    } catch {
      answer.textContent = `GET ${where}\nthe service does not answer`;
    }
  };
  return [el("button", { type: "button", on: { click: send } }, "Send"), answer];
}

function routeOf(route, schemas) {
  const { about } = route;
  const parameters = about.parameters ?? [];
  const inputs = {};
  const rows = parameters.map((one) => parameterRow(one, schemas, inputs));
  const answers = Object.entries(about.responses ?? {}).map(([status, found]) =>
    el("tr", {}, el("td", {}, status), el("td", {}, found.description, contents(found.content, schemas))),
  );
  const body = contents(about.requestBody?.content, schemas);
  return el(
    "details",
    { id: about.operationId, class: "route" },
    el(
      "summary",
      {},
      el("code", { class: `method ${route.method}` }, route.method.toUpperCase()),
      " ",
      el("code", {}, route.path),
      " ",
      el("span", { class: "quiet-text" }, about.description ?? about.summary ?? ""),
    ),
    rows.length ? el("table", {}, el("tbody", {}, ...rows)) : null,
    body ? el("p", {}, "Body: ", about.requestBody.description ?? "", body) : null,
    ...(route.method === "get" ? ask(route, parameters, inputs) : []),
    el("h3", {}, "Answers"),
    el("table", {}, el("tbody", {}, ...answers)),
  );
}

async function show() {
  const page = document.getElementById("page");
  try {
    const found = await fetch("/openapi.json");
    if (!found.ok) throw new Error(String(found.status));
    const described = await found.json();
    const schemas = described.components?.schemas ?? {};
    const parts = [...routesByTag(described)].map(([tag, routes]) =>
      el("section", {}, el("h2", {}, tag), ...routes.map((route) => routeOf(route, schemas))),
    );
    const about = described.info.description.split("\n\n").map((text) => el("p", {}, text));
    fill(page, el("h1", {}, `${described.info.title} ${described.info.version}`), ...about, ...parts);
    document.getElementById(location.hash.slice(1))?.setAttribute("open", "");
  } catch (error) {
    fill(page, el("p", { class: "problem" }, `The description of the API cannot be read (${error.message}).`));
  }
}

if (document.querySelector('script[src$="api_docs.js"]')) show();
