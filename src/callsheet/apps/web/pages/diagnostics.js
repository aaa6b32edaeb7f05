// What is said of a text: each with its line, the place under it, and a way out.
import { useState } from "preact/hooks";
import { LEVELS, html } from "../../viewer/ui.js";
import { ask } from "./session.js";
import { point } from "./textarea.js";

const ORDER = ["error", "warning", "hint"];

export function Findings({ rows, text, box, onFix }) {
  if (!rows.length) return html`<p class="quiet pad">Nothing is to be said.</p>`;
  const sorted = [...rows].sort((one, other) => ORDER.indexOf(one.severity) - ORDER.indexOf(other.severity));
  const lines = text.split("\n");
  const go = (row) => point(box, text, row.line, row.column);
  return html`<ul class="said">
    ${sorted.map(
      (row, n) => html`<${Finding} key=${n} row=${row} line=${lines[row.line - 1]} onGo=${go} onFix=${onFix} />`,
    )}
  </ul>`;
}

function Finding({ row, line, onGo, onFix }) {
  const [page, setPage] = useState("");
  const [shape, word] = LEVELS[row.severity] || LEVELS.hint;
  const explain = async () => {
    if (page) setPage("");
    else setPage(await ask(`/v1/explain/${row.code}`).then(({ page: told }) => told, (error) => error.message));
  };
  return html`<li>
    <p>
      <span class=${`level is-${row.severity}`}><span aria-hidden="true">${shape}</span> ${word}</span>${" "}
      ${row.line ? html`
        <button class="link" onClick=${() => onGo(row)}>line ${row.line}, column ${row.column}</button>` : ""}${" "}
      <span>${row.message}</span>${" "}
      <button class="link code" onClick=${explain} aria-expanded=${Boolean(page)}>${row.code}</button>
    </p>
    ${line === undefined ? "" : html`<pre class="caret">${caret(line, row)}</pre>`}
    ${row.help ? html`<p class="quiet">${row.help}</p>` : ""}
    ${row.fix && onFix ? html`<button class="plain" onClick=${() => onFix(row.fix)}>Fix: ${row.fix.title}</button>` : ""}
    ${page ? html`<pre class="page-of-code">${page}</pre>` : ""}
  </li>`;
}

// The line, and carets below what is meant.
function caret(line, { column, end_line: endLine, end_column: end, line: start }) {
  const long = Math.max(1, endLine === start ? end - column : 1);
  return `${line}\n${" ".repeat(column - 1)}${"^".repeat(Math.min(long, 120))}`;
}

// A text with a repair made; its places count characters, not the units of a browser.
export function fixed(text, fix) {
  const characters = [...text];
  for (const { start, end, text: put } of [...fix.edits].sort((one, other) => other.start - one.start))
    characters.splice(start, end - start, put);
  return characters.join("");
}
