// The diagnostics of a text, each with its line, a caret and help.
import { useState } from "preact/hooks";
import { LEVELS, html } from "../../viewer/ui.js";
import { request } from "./session.js";
import { fixesOf, setCursor } from "./text.js";

const ORDER = ["error", "warning", "hint"];

export function Findings({ rows, text, box, onFix }) {
  if (!rows.length) return html`<p class="quiet pad">No findings.</p>`;
  const sorted = [...rows].sort((one, other) => ORDER.indexOf(one.severity) - ORDER.indexOf(other.severity));
  const lines = text.split("\n");
  const moveTo = (row) => setCursor(box, text, row.line, row.column);
  return html`<ul class="finding-list">
    ${sorted.map(
      (row, n) => html`<${Finding} key=${n} row=${row} line=${lines[row.line - 1]} onGo=${moveTo} onFix=${onFix} />`,
    )}
  </ul>`;
}

function Finding({ row, line, onGo, onFix }) {
  const [page, setPage] = useState("");
  const [shape, word] = LEVELS[row.severity] || LEVELS.hint;
  const explain = async () => {
    if (page) setPage("");
    else setPage(await request(`/v1/explain/${row.code}`).then((data) => data.page, (error) => error.message));
  };
  return html`<li data-line=${row.line}>
    <p>
      <span class=${`level is-${row.severity}`}><span aria-hidden="true">${shape}</span> ${word}</span>${" "}
      ${row.line ? html`
        <button class="link" onClick=${() => onGo(row)}>line ${row.line}, column ${row.column}</button>` : ""}${" "}
      <span>${row.message}</span>${" "}
      <button class="link code" onClick=${explain} aria-expanded=${Boolean(page)}>${row.code}</button>
    </p>
    ${line === undefined ? "" : html`<pre class="caret" tabindex="0" role="region" aria-label=${`Line ${row.line}, ${row.code}`}>${caret(line, row)}</pre>`}
    ${row.help ? html`<p class="quiet">${row.help}</p>` : ""}
    ${onFix ? fixesOf(row).map((fix) => html`
      <button key=${fix.title} class="plain fix" onClick=${() => onFix(fix)}>Fix: ${fix.title}</button>${" "}`) : ""}
    ${page ? html`<pre class="code-page" tabindex="0" role="region" aria-label=${`About ${row.code}`}>${page}</pre>` : ""}
  </li>`;
}

const MOST = 120; // the characters of a line that are shown

// Returns the line, of a long one the part around the marked range, with carets below the range.
function caret(line, { column, end_line: endLine, end_column: end, line: start }) {
  const characters = [...line];
  const from = characters.length > MOST ? Math.max(0, column - 1 - MOST / 3) : 0;
  const shown = characters.slice(from, from + MOST).join("");
  const [before, after] = [from ? "…" : "", from + MOST < characters.length ? "…" : ""];
  const length = Math.max(1, endLine === start ? end - column : 1);
  const carets = "^".repeat(Math.min(length, from + MOST - column + 1));
  return `${before}${shown}${after}\n${" ".repeat(column - 1 - from + before.length)}${carets}`;
}

// Applies a fix to a text. Its offsets count characters, not UTF-16 units.
export function applyFix(text, fix) {
  const characters = [...text];
  for (const { start, end, text: replacement } of [...fix.edits].sort((one, other) => other.start - one.start))
    characters.splice(start, end - start, replacement);
  return characters.join("");
}
