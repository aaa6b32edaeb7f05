// A text area with line numbers, which underlines the ranges of diagnostics.
import { useRef } from "preact/hooks";
import { html } from "../../viewer/ui.js";

const MOST_MARKS = 200;

export function TextWithMarks({ box, text, marks, onText }) {
  const behind = useRef(null);
  const gutter = useRef(null);
  const syncScroll = () => {
    behind.current.scrollTop = gutter.current.scrollTop = box.current.scrollTop;
    behind.current.scrollLeft = box.current.scrollLeft;
  };
  const lines = text.split("\n");
  const worst = new Map();
  for (const { line, severity } of marks) {
    if (line && (severity === "error" || !worst.has(line))) worst.set(line, severity);
  }
  const lineClass = (line) => (worst.has(line) ? `is-${worst.get(line)}` : "");
  return html`<div class="text panel">
    <div class="gutter" ref=${gutter} aria-hidden="true">
      ${lines.map((_, n) => html`<div key=${n} class=${lineClass(n + 1)}>${n + 1}</div>`)}
    </div>
    <pre class="behind" ref=${behind} aria-hidden="true">${marked(text, marks)}${"\n"}</pre>
    <label class="only-read" for="plan-text">The text of the plan</label>
    <textarea id="plan-text" ref=${box} value=${text} spellcheck=${false} autocomplete="off" autocapitalize="off"
      wrap="off"
      placeholder=${'S1: @CALC ("6 * 7") > $answer\nS2: @RESPOND ("$answer")'}
      onInput=${(event) => onText(event.currentTarget.value)} onScroll=${syncScroll}></textarea>
  </div>`;
}

// The text in parts, with marks around the ranges of diagnostics; of overlapping ranges only the first is marked.
function marked(text, marks) {
  const starts = lineStarts(text);
  const places = marks
    .filter((mark) => mark.line && mark.severity !== "hint")
    .map((mark) => {
      const from = offset(text, starts, mark.line, mark.column);
      return [from, Math.max(from + 1, offset(text, starts, mark.end_line, mark.end_column)), mark.severity];
    })
    .sort((one, other) => one[0] - other[0])
    .slice(0, MOST_MARKS);
  const parts = [];
  let at = 0;
  for (const [from, to, severity] of places) {
    if (from < at) continue;
    parts.push(text.slice(at, from), html`<mark key=${from} class=${`is-${severity}`}>${text.slice(from, to)}</mark>`);
    at = to;
  }
  return [...parts, text.slice(at)];
}

export function lineStarts(text) {
  const found = [0];
  for (let n = text.indexOf("\n"); n >= 0; n = text.indexOf("\n", n + 1)) found.push(n + 1);
  return found;
}

// The offset of a line and column, both from 1; columns count characters, not UTF-16 units.
export function offset(text, starts, line, column) {
  const from = starts[Math.min(line, starts.length) - 1];
  const rest = text.slice(from, starts[line] ?? text.length + 1);
  return Math.min(text.length, from + [...rest].slice(0, column - 1).join("").length);
}

// Moves the cursor to a line and column.
export function setCursor(box, text, line, column) {
  const at = offset(text, lineStarts(text), line, column);
  box.current.focus();
  box.current.setSelectionRange(at, at);
}

// Moves the cursor to an offset in characters.
export function setCursorAt(box, text, place) {
  const at = [...text].slice(0, place).join("").length;
  box.current.focus();
  box.current.setSelectionRange(at, at);
}
