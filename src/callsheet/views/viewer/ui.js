// Shared components of all panels: templates, status, numbers, virtual lists.
import { h } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import htm from "htm";
import { plain } from "./model.js";

export const html = htm.bind(h);

// Status is shown by a symbol and a word, and not by colour alone.
export const STATUS = {
  pending: ["○", "pending"],
  open: ["◔", "running"],
  ok: ["✓", "ok"],
  failed: ["✗", "failed"],
  partial: ["▲", "done with failures"],
  skipped: ["–", "skipped"],
  stopped: ["■", "stopped"],
};

// `said` is a word that tells more than the usual one of the status.
export function Status({ of, words = true, said = "" }) {
  const [shape, usual] = STATUS[of] || STATUS.pending;
  const word = said || usual;
  return html`<span class="status is-${of}"><span class="shape" aria-hidden="true">${shape}</span>${
    words ? word : html`<span class="only-read">${word}</span>`
  }</span>`;
}

export const LEVELS = { error: ["✗", "error"], warning: ["▲", "warning"], hint: ["·", "hint"] };

// The name of a confidence's band.
export function band(value) {
  if (value >= 0.95) return "verified";
  if (value >= 0.8) return "high";
  if (value >= 0.7) return "moderate";
  if (value >= 0.6) return "flagged";
  return value >= 0.4 ? "review" : "blocked";
}

const MARKS = { verified: "●", high: "◕", moderate: "◑", flagged: "⚑", review: "⚑", blocked: "⊘" };

export function Confidence({ value, short = false }) {
  const word = band(value);
  return html`<span class="conf is-${word}" title=${`${value.toFixed(2)}: ${word}`}
    ><span aria-hidden="true">${MARKS[word]}</span> ${value.toFixed(2).replace(/^0/, "")}${
      short ? html`<span class="only-read"> ${word}</span>` : ` ${word}`
    }</span>`;
}

export function duration(seconds) {
  if (!(seconds >= 0)) return "–";
  if (seconds === 0) return "0 ms";
  if (seconds < 0.0005) return "<1 ms";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytes(count) {
  if (count < 1000) return `${count} B`;
  return count < 1e6 ? `${(count / 1000).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

// The name of an argument; positional ones are numbered from 1.
export const argument = (name) => (/^\d+$/.test(name) ? `#${Number(name) + 1}` : name);

// A word of a command to copy, as a shell takes it: keys have brackets.
export const shellWord = (text) => (/^[\w@%+:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

export const counted = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

// A time in seconds since 1970 as text in UTC, as everywhere in callsheet; its title is the local time.
export function Moment({ at, isPrecise = false, class: name = "" }) {
  const date = new Date(at * 1000);
  const text = date.toISOString().replace("T", " ");
  return html`<time class=${name} datetime=${date.toISOString()} title=${`${date.toLocaleString()} here`}>${
    isPrecise ? text.slice(11, 23) : text.slice(0, 19)
  } UTC</time>`;
}

// A tab list: one stop of the Tab key, arrow keys move between the tabs.
export function Tabs({ label, tabs, current, onPick, id }) {
  const move = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const names = tabs.map(([name]) => name);
    const next = names[(names.indexOf(current) + by + names.length) % names.length];
    onPick(next);
    event.currentTarget.querySelector(`[data-tab="${next}"]`).focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${tabs.map(
      ([name, text]) => html`<button key=${name}
        role="tab"
        data-tab=${name}
        id=${`${id}-tab-${name}`}
        aria-selected=${name === current}
        aria-controls=${`${id}-panel`}
        tabindex=${name === current ? 0 : -1}
        onClick=${() => onPick(name)}
      >${text}</button>`,
    )}
  </div>`;
}

// Handles a key in an element that is one stop of the Tab key, while the buttons in it are none (tabindex -1): the arrow
// keys move between them, from the chosen one, else the first that is seen.
export function moveByArrows(event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const box = event.currentTarget;
  const buttons = by ? [...box.querySelectorAll("button")] : [];
  const at = buttons.indexOf(document.activeElement);
  const { top } = box.getBoundingClientRect();
  const next =
    at >= 0
      ? buttons[at + by]
      : buttons.find((one) => one.ariaCurrent === "true" || one.ariaPressed === "true") ||
        buttons.find((one) => one.getBoundingClientRect().top >= top);
  if (!next) return;
  event.preventDefault();
  event.stopPropagation();
  next.focus();
}

// Rows of equal height, of which only visible ones are rendered: one stop of the Tab key. `follow` is a row that is
// scrolled into view when it changes.
export function VirtualList({ count, height, row, label, follow = -1, role = "list", class: name = "" }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, room: 600 });
  const read = () => {
    const el = box.current;
    if (el)
      setView((old) =>
        old.top === el.scrollTop && old.room === el.clientHeight ? old : { top: el.scrollTop, room: el.clientHeight },
      );
  };
  useLayoutEffect(() => {
    read();
    const watcher = new ResizeObserver(read);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    const el = box.current;
    if (follow < 0 || !el) return;
    const top = follow * height;
    if (top < el.scrollTop) el.scrollTop = Math.max(0, top - height);
    else if (top + height > el.scrollTop + el.clientHeight) el.scrollTop = top + 2 * height - el.clientHeight;
  }, [follow, height, count]);
  const first = Math.max(0, Math.floor(view.top / height) - 8);
  const last = Math.min(count, Math.ceil((view.top + view.room) / height) + 8);
  const rows = [];
  for (let n = first; n < last; n++) rows.push(row(n));
  return html`<div class="virtual ${name}" ref=${box} onScroll=${read} tabindex="0" role="group" aria-label=${label}
    onKeyDown=${moveByArrows}>
    <div class="tall" role="presentation" style=${{ height: `${count * height}px` }}>
      <div role=${count ? role : "presentation"} aria-label=${label} class="window"
          style=${{ transform: `translateY(${first * height}px)` }}>${rows}</div>
    </div>
  </div>`;
}

// A modal dialog.
export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    box.current.showModal();
  }, []);
  return html`<dialog ref=${box} aria-label=${title} onClose=${onClose} onCancel=${onClose}>
    <header><h2>${title}</h2><button class="plain" onClick=${onClose} aria-label="Close">✕</button></header>
    ${children}
  </dialog>`;
}

export function copy(text, onCopied) {
  const done = (isCopied = true) => onCopied(isCopied ? "copied" : "not copied");
  if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(text).then(() => done(), copyBySelection);
  else copyBySelection();
  function copyBySelection() {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    done(isCopied);
  }
}

export function download(name, text, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// `text` may be a function, also an asynchronous one; `part` says what of the whole is copied, if it is not all.
export function CopyButton({ text, label = "Copy", part = "" }) {
  const [status, setStatus] = useState("");
  const say = (word) => {
    setStatus(word);
    setTimeout(() => setStatus(""), 3000);
  };
  const act = async () => {
    try {
      copy(typeof text === "function" ? await text() : text, (word) => say(part ? `${word} ${part}` : word));
    } catch (error) {
      say(`not copied: ${error.message}`);
    }
  };
  return html`<button class="plain" onClick=${act}>${status || (part ? `${label} ${part}` : label)}</button>`;
}

// A text of many lines, of which only visible ones are rendered.
export function Source({ text, label }) {
  const lines = useMemo(() => plain(text).replace(/\n$/, "").split("\n"), [text]);
  return html`<${VirtualList} label=${label} class="source" count=${lines.length} height=${20} row=${(n) => html`
    <div role="listitem" key=${n} class="line"><code>${lines[n] || " "}</code></div>`} />`;
}
