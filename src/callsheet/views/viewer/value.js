// A value as a tree, with links to the lineage of its parts. Values are rendered as text, never as HTML.
import { useEffect, useMemo, useState } from "preact/hooks";
import { CopyButton, bytes, html, moveByArrows } from "./ui.js";
import { ErrorMessage, useAction } from "./actions.js";
import { Exact, isSealed, parse, parseBeginning, plain, preview } from "./model.js";
import { actions, model } from "./state.js";

const MAX_CHILDREN = 100;
const MAX_TEXT = 2000;

// Names of parts are buttons that show the path of the part, to be copied; with `onPick(path)` they also select it,
// and `path` is the selected part. With `whole` nothing is folded or cut, as where a person decides about the value.
export function ValueBox({ value, label = "", onPick = null, path = null, open = 2, whole = false }) {
  const { text, size, cut, kind, parsed, load } = useValue(value);
  const [problem, isBusy, act] = useAction();
  const [own, setOwn] = useState(null); // the part that was picked here, where that selects nothing else
  const at = onPick ? path : own;
  if (kind) return html`<p class="left-out">${label ? `${label}: ` : ""}omitted (${kind}, ${bytes(size)})</p>`;
  const note = cut ? `, the first ${bytes(model.value.notes.most)} shown` : "";
  return html`<div class="value">
    <div class="value-head">
      <span class="quiet">${label}${size > 200 || cut ? ` ${bytes(size)}` : ""}${note}</span>
      <span class="value-acts">${own ? html`<code>${pathText(own)}</code>
        <${CopyButton} text=${pathText(own)} label="Copy path" />` : ""}${cut && load ? html`<button class="plain" disabled=${isBusy}
          onClick=${() => act(load)}>Show all ${bytes(size)}</button>` : ""}
        <${CopyValue} value=${value} /></span></div>
    ${parsed === undefined ? html`<pre>${plain(text)}${cut ? "…" : ""}</pre>` : html`<div class="tree" ...${parts(parsed)}>
      <${Node} key=${cut} value=${parsed} path=${[]} onPick=${onPick || setOwn} chosen=${at}
        open=${whole ? Infinity : open} whole=${whole} /></div>`}
    ${cut && !load ? html`<p class="quiet">The rest is not in this report. Full value:
      ${" "}<code>callsheet show ${model.value.run.id} --events</code></p>` : ""}
    <${ErrorMessage} text=${problem} />
  </div>`;
}

// What makes the parts of a value one stop of the Tab key; nothing for a value without parts.
const parts = (value) =>
  isInner(value) && Object.keys(value).length
    ? { tabindex: 0, role: "group", "aria-label": "The parts of the value", onKeyDown: moveByArrows }
    : {};

const isInner = (value) => value !== null && typeof value === "object" && !(value instanceof Exact);

// The JSONPath (RFC 9535) of a part of a value.
export const pathText = (path) =>
  `$${path.map((part) => (typeof part === "number" ? `[${part}]` : /^[A-Za-z_]\w*$/.test(part) ? `.${part}` : `[${JSON.stringify(part)}]`)).join("")}`;

const wholes = new Map(); // the JSON texts of long values, by digest, as far as they were loaded
const MAX_WHOLES = 20;
const onPage = new Set(); // redraws each value of the page: one that was loaded is shown in all its places

// A value of the page, as Model.value gives it, and what it is: `parsed`, of a cut one its beginning. `load` gets the
// whole of a long value from the server, and shows it; it is null where there is none.
export function useValue(number) {
  const [, redraw] = useState(0);
  const data = model.value;
  const { text: beginning, size, cut, kind, digest } = data.value(number);
  useEffect(() => {
    const again = () => redraw((n) => n + 1);
    onPage.add(again);
    return () => onPage.delete(again);
  }, []);
  const loaded = cut ? wholes.get(digest) : undefined;
  const text = loaded === undefined ? beginning : loaded;
  const parsed = useMemo(() => {
    if (!cut) return data.parsed(number);
    return loaded === undefined ? parseBeginning(beginning) : parse(loaded);
  }, [data, number, text]);
  const load = async () => {
    if (!wholes.has(digest)) {
      const got = await actions.value.whole(digest);
      if (wholes.size >= MAX_WHOLES) wholes.delete(wholes.keys().next().value);
      wholes.set(digest, got);
    }
    for (const again of onPage) again();
    return wholes.get(digest);
  };
  const isCut = Boolean(cut) && loaded === undefined;
  return { text, size, kind, parsed, cut: isCut, load: cut && actions.value ? load : null };
}

// Copies the whole of a value; where the page has only its beginning, the button says so. With `asText`, a text is
// copied without quotes.
export function CopyValue({ value, asText = false }) {
  const { text, size, cut, load } = useValue(value);
  const out = (json) => {
    const found = asText ? parse(json) : undefined;
    return typeof found === "string" ? found : json;
  };
  const part = cut && !load ? `the first ${bytes(model.value.notes.most)} of ${bytes(size)}` : "";
  return html`<${CopyButton} text=${async () => out(cut && load ? await load() : text)} part=${part} />`;
}

function Node({ value, name, path, onPick, chosen, open, whole }) {
  const [isOpen, setOpen] = useState(open > 0);
  const [most, setMost] = useState(whole ? Infinity : MAX_CHILDREN);
  const isChosen =
    chosen && chosen.length === path.length && chosen.every((part, n) => String(part) === String(path[n]));
  const key =
    name === undefined
      ? ""
      : html`<button class="key ${isChosen ? "chosen" : ""}" tabindex=${-1} aria-pressed=${Boolean(isChosen)}
          onClick=${() => onPick(path)}>${plain(String(name))}</button>`;
  if (!isInner(value)) return html`<div class="leaf">${key}<${Leaf} value=${value} whole=${whole} /></div>`;
  const entries = Array.isArray(value) ? value.map((each, n) => [n, each]) : Object.entries(value);
  if (!entries.length)
    return html`<div class="leaf">${key}<span class="json">${Array.isArray(value) ? "[]" : "{}"}</span></div>`;
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return html`<div class="inner">
    <div class="line"><button class="fold" tabindex=${-1} aria-expanded=${isOpen}
        aria-label=${`${name === undefined ? "value" : name}: ${entries.length} members`}
        onClick=${() => setOpen(!isOpen)}>${isOpen ? "▾" : "▸"}</button>${key}
      <span class="quiet json">${isOpen ? size : preview(value, 80)}</span></div>
    ${
      isOpen
        ? html`<div class="children">${entries.slice(0, most).map(([part, each]) => html`<${Node} key=${part}
            name=${part} value=${each} path=${[...path, part]} onPick=${onPick} chosen=${chosen} open=${open - 1}
            whole=${whole} />`)}
      ${entries.length > most ? html`<button class="plain" tabindex=${-1}
          onClick=${() => setMost(most * 10)}>${entries.length - most} more</button>` : ""}</div>`
        : ""
    }
  </div>`;
}

function Leaf({ value, whole }) {
  const [isWhole, setWhole] = useState(whole);
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
