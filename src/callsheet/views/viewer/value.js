// A value as a tree, with links to the lineage of its parts. Values are rendered as text, never as HTML.
import { useState } from "preact/hooks";
import { CopyButton, bytes, html } from "./ui.js";
import { Exact, isSealed, plain, preview } from "./model.js";
import { model } from "./state.js";

const MAX_CHILDREN = 100;
const MAX_TEXT = 2000;

// With `onPick(path)`, names of parts are buttons; `path` is the selected part.
export function ValueBox({ value, label = "", onPick = null, path = null, open = 2 }) {
  const data = model.value;
  const { text, size, cut, kind } = data.value(value);
  if (kind) return html`<p class="left-out">${label ? `${label}: ` : ""}omitted (${kind}, ${bytes(size)})</p>`;
  const note = cut ? `, truncated to ${bytes(text.length)}` : "";
  const parsed = cut ? undefined : data.parsed(value);
  return html`<div class="value">
    <div class="value-head">
      <span class="quiet">${label}${size > 200 || cut ? ` ${bytes(size)}` : ""}${note}</span>
      <${CopyButton} text=${text} /></div>
    ${parsed === undefined ? html`<pre>${plain(text)}${cut ? "…" : ""}</pre>` : html`<div class="tree">
      <${Node} value=${parsed} path=${[]} onPick=${onPick} chosen=${path} open=${open} /></div>`}
    ${cut ? html`<p class="quiet">Full value: <code>callsheet show ${data.run.id} --events</code></p>` : ""}
  </div>`;
}

function Node({ value, name, path, onPick, chosen, open }) {
  const [isOpen, setOpen] = useState(open > 0);
  const [most, setMost] = useState(MAX_CHILDREN);
  const isInside = value !== null && typeof value === "object" && !(value instanceof Exact);
  const isChosen =
    chosen && chosen.length === path.length && chosen.every((part, n) => String(part) === String(path[n]));
  const key =
    name === undefined
      ? ""
      : onPick
        ? html`<button class="key ${isChosen ? "chosen" : ""}" aria-pressed=${isChosen}
            onClick=${() => onPick(path)}>${plain(String(name))}</button>`
        : html`<span class="key">${plain(String(name))}</span>`;
  if (!isInside) return html`<div class="leaf">${key}<${Leaf} value=${value} /></div>`;
  const entries = Array.isArray(value) ? value.map((each, n) => [n, each]) : Object.entries(value);
  if (!entries.length)
    return html`<div class="leaf">${key}<span class="json">${Array.isArray(value) ? "[]" : "{}"}</span></div>`;
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return html`<div class="inner">
    <div class="line"><button class="fold" aria-expanded=${isOpen}
        aria-label=${`${name === undefined ? "value" : name}: ${entries.length} members`}
        onClick=${() => setOpen(!isOpen)}>${isOpen ? "▾" : "▸"}</button>${key}
      <span class="quiet json">${isOpen ? size : preview(value, 80)}</span></div>
    ${
      isOpen
        ? html`<div class="children">${entries.slice(0, most).map(([part, each]) => html`<${Node} key=${part}
            name=${part} value=${each} path=${[...path, part]} onPick=${onPick} chosen=${chosen} open=${open - 1} />`)}
      ${entries.length > most ? html`<button class="plain"
          onClick=${() => setMost(most * 10)}>${entries.length - most} more</button>` : ""}</div>`
        : ""
    }
  </div>`;
}

function Leaf({ value }) {
  const [isWhole, setWhole] = useState(false);
  if (isSealed(value))
    return html`<span class="sealed" title="A secret, which is not part of this report">${value}</span>`;
  if (value instanceof Exact) return html`<span class="json number">${value.text}</span>`;
  if (typeof value !== "string")
    return html`<span class="json ${typeof value}">${String(JSON.stringify(value))}</span>`;
  const isLong = value.length > MAX_TEXT && !isWhole;
  return html`
    <span class="json string">${plain(JSON.stringify(isLong ? value.slice(0, MAX_TEXT) : value))}</span>${isLong ? html`
      <button class="plain" onClick=${() => setWhole(true)}>all ${bytes(value.length)}</button>` : ""}`;
}
