// A form made from a JSON Schema: what the fields are, how their texts are read, and how they look.
import { html } from "../../viewer/ui.js";
import { into, typed } from "../../viewer/actions.js";

const HINTS = { "date-time": "2026-01-31T15:00:00Z", duration: "2d, 1h30m" };
const LONG_TEXT = 80; // characters from which a text gets a field of several lines

// The fields of an object's schema: { name, kind, isNeeded, isSecret, help, hint, options, usual }.
export function fieldsOf(schema) {
  const needed = schema.required || [];
  return Object.entries(schema.properties || {}).map(([name, given]) => {
    const [of, isOptional] = withoutNull(given);
    return {
      name,
      ...kindOf(of),
      isNeeded: needed.includes(name) && !isOptional,
      isSecret: given.writeOnly === true,
      help: given.description || of.description || "",
      usual: given.default,
    };
  });
}

// A schema without null among what it allows, and whether it allowed that.
function withoutNull(schema) {
  const options = schema.anyOf || schema.oneOf;
  const others = options ? options.filter((each) => each.type !== "null") : [];
  if (options && others.length < options.length)
    return [others.length === 1 ? others[0] : { ...schema, anyOf: others }, true];
  if (Array.isArray(schema.type) && schema.type.includes("null")) {
    const types = schema.type.filter((type) => type !== "null");
    return [{ ...schema, type: types.length === 1 ? types[0] : types }, true];
  }
  return [schema, false];
}

function kindOf(schema) {
  if (schema.enum) return { kind: "choice", options: schema.enum, hint: "" };
  if (schema.type === "boolean") return { kind: "choice", options: [true, false], hint: "" };
  if (schema.type === "integer" || schema.type === "number") {
    const { minimum, maximum } = schema;
    const bounds = [minimum !== undefined && `from ${minimum}`, maximum !== undefined && `up to ${maximum}`];
    return { kind: schema.type, hint: bounds.filter(Boolean).join(" "), minimum, maximum };
  }
  if (schema.type === "string") {
    const { format } = schema;
    return { kind: format === "date" ? "date" : "text", hint: HINTS[format] || "" };
  }
  if (schema.type === "array" && schema.items && schema.items.type === "string" && !schema.items.enum)
    return { kind: "lines", hint: "one per line, or JSON" };
  const isAny = !schema.type && !schema.anyOf && !schema.oneOf && !schema.$ref && !schema.allOf;
  return isAny ? { kind: "any", hint: "text or JSON" } : { kind: "json", hint: "JSON" };
}

// What the text of a field says: { value }, { problem }, or {} if nothing is given.
function valueOf(field, text = "") {
  if (!text.trim()) return field.isNeeded ? { problem: "is needed" } : {};
  const parsed = parse(text);
  if (field.kind === "text" || field.kind === "date") return { value: typeof parsed === "string" ? parsed : text };
  if (field.kind === "choice") {
    const found = field.options.find((option) => JSON.stringify(option) === text || option === text);
    return found === undefined ? { problem: `is one of ${field.options.join(", ")}` } : { value: found };
  }
  if (field.kind === "integer" || field.kind === "number") return numberOf(field, text);
  if (field.kind === "lines" && !Array.isArray(parsed))
    return { value: text.split("\n").map((line) => line.trim()).filter(Boolean) };
  if (field.kind === "any") return { value: field.isSecret ? text : typed(text) }; // secrets are sent as texts
  return parsed === undefined ? { problem: "is not JSON: texts stand in double quotes" } : { value: parsed };
}

function numberOf({ kind, minimum, maximum }, text) {
  const number = Number(text);
  if (!Number.isFinite(number)) return { problem: "is not a number" };
  if (kind === "integer" && !Number.isInteger(number)) return { problem: "is not a whole number" };
  if (kind === "integer" && !Number.isSafeInteger(number)) return { problem: "is too large for a browser to send exactly" };
  if (minimum !== undefined && number < minimum) return { problem: `is less than ${minimum}` };
  if (maximum !== undefined && number > maximum) return { problem: `is more than ${maximum}` };
  return { value: number };
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// The values of all fields, those that are secret apart, and what is wrong with which: { values, secrets, problems }.
export function valuesOf(fields, texts) {
  const found = { values: {}, secrets: {}, problems: {} };
  for (const field of fields) {
    const { value, problem } = valueOf(field, texts[field.name]);
    if (problem) found.problems[field.name] = problem;
    else if (value !== undefined) found[field.isSecret ? "secrets" : "values"][field.name] = value;
  }
  return found;
}

// The text of a field that says a value.
export const textOf = (value) =>
  typeof value === "string" && value && typeof parse(value) !== "string" ? value : JSON.stringify(value);

export function Fields({ fields, texts, problems = {}, onText, id = "field" }) {
  return html`<div class="fields">${fields.map((field) => {
    const key = `${id}-${field.name}`;
    const problem = problems[field.name];
    const marks = [field.isNeeded ? "needed" : "", field.isSecret ? "secret, encrypted" : "", field.hint].filter(Boolean);
    return html`<div class="field" key=${field.name}>
      <label for=${key}><b>${field.name}</b> <span class="quiet">${marks.join(" · ")}</span></label>
      <${Control} field=${field} id=${key} text=${texts[field.name] || ""} problem=${problem}
        onText=${(text) => onText(field.name, text)} />
      ${field.help ? html`<p class="quiet" id=${`${key}-help`}>${field.help}</p>` : ""}
      ${problem ? html`<p class="is-failed" id=${`${key}-problem`} role="alert">✗ ${field.name} ${problem}</p>` : ""}
    </div>`;
  })}</div>`;
}

function Control({ field, id, text, problem, onText }) {
  const usual = field.usual === undefined ? "" : field.usual === null ? "none" : textOf(field.usual);
  const common = {
    id,
    "aria-invalid": problem ? "true" : undefined,
    "aria-describedby": [field.help && `${id}-help`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined,
    "aria-required": field.isNeeded ? "true" : undefined,
    onInput: into(onText),
  };
  if (field.kind === "choice")
    return html`<select ...${common} value=${chosen(field, text)}>
      <option value="">${field.isNeeded ? "choose" : usual ? `${usual} (default)` : "none"}</option>
      ${field.options.map((option) => html`<option key=${JSON.stringify(option)} value=${JSON.stringify(option)}>${String(option)}</option>`)}
    </select>`;
  const placeholder = usual || field.hint;
  const isLong = ["any", "json", "lines"].includes(field.kind) || text.length > LONG_TEXT || text.includes("\n");
  if (isLong && !field.isSecret)
    return html`<textarea ...${common} rows=${Math.min(8, Math.max(2, text.split("\n").length))} placeholder=${placeholder}
      spellcheck="false" value=${text}></textarea>`;
  const type = field.isSecret ? "password" : field.kind === "date" ? "date" : "text";
  return html`<input ...${common} type=${type} placeholder=${placeholder} value=${text} autocomplete="off"
    inputmode=${field.kind === "integer" ? "numeric" : field.kind === "number" ? "decimal" : undefined} />`;
}

function chosen(field, text) {
  const { value } = valueOf({ ...field, isNeeded: false }, text);
  return value === undefined ? "" : JSON.stringify(value);
}
