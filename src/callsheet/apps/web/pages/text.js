// The text of a plan in an editor with colours, findings, proposals and explanations, all from the server.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { markdown } from "./markdown.js";
import { goToDefinition, renameField } from "./names.js";
import { charactersBefore, unitsOf } from "./offsets.js";
import { request } from "./session.js";
import { theme } from "./text_theme.js";

const SEVERITIES = { error: "error", warning: "warning", hint: "info" };
const COMPLETES = /[\w@$?{.]$|[(,>:=][ \t]?$/; // where proposals are shown while one types
const PLACEHOLDER = "# ltp: 2\nLET $product = 6 * 7\n@RESPOND ($product)";

let library = null; // the editor's library, loaded with the first editor

function loaded() {
  library ||= import("/assets/codemirror.js").catch((error) => {
    library = null;
    throw error;
  });
  return library;
}

// `text` is a signal. `marked` is what the server found for the text `marked.of`; `terms` are further fields of
// requests. `box` gets what moves the cursor: `value`, `goTo(offset)`, `focus()`. `onFix` goes to the fixes of a line.
export function PlanText({ box, text, marked, terms, onText, onFix }) {
  const place = useRef(null);
  const editor = useRef(null);
  const now = useRef({}); // what handlers that were made once see
  now.current = { onText, onFix, terms };
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isGone = false;
    loaded().then(
      (cm) => {
        if (isGone) return;
        const root = place.current.shadowRoot || place.current.attachShadow({ mode: "open" });
        editor.current = made(cm, root, text.value, now);
        box.current = controls(cm, editor.current.view);
        show(editor.current, marked);
      },
      () => isGone || setProblem("the editor could not be loaded; reload the page"),
    );
    return () => {
      isGone = true;
      editor.current?.view.destroy();
      editor.current = box.current = null;
    };
  }, []);
  useEffect(() => {
    if (!editor.current) return;
    replaceText(editor.current, text.value); // as it is now, not as it was when this was drawn
    show(editor.current, marked);
  }, [text.value, marked]);
  return html`<div class="text panel">
    ${problem ? html`<p class="notice" role="alert">${problem}</p>` : ""}
    <div class="text-place" ref=${place}></div>
  </div>`;
}

function made(cm, root, text, now) {
  const marks = marksField(cm);
  const explained = explanationField(cm);
  const renaming = renameField(cm, now);
  const own = cm.Annotation.define(); // marks changes that the page itself makes
  const explain = (view) => {
    const at = view.state.selection.main.head;
    explanationAt(cm, view.state, at, now).then((tip) => tip && view.dispatch({ effects: explained.set.of(tip) }));
    return true;
  };
  const keys = [
    { key: "Mod-k Mod-i", run: explain },
    { key: "F8", run: cm.nextDiagnostic },
    { key: "F12", run: (view) => goToDefinition(cm, view, now) },
    { key: "F2", run: renaming.open },
    { key: "Mod-.", run: (view) => now.current.onFix(view.state.doc.lineAt(view.state.selection.main.head).number) },
    { key: "Escape", run: (view) => hidden(view, explained) },
  ];
  // the page runs the plan with this key
  const usual = [...cm.defaultKeymap, ...cm.historyKeymap, ...cm.searchKeymap];
  const state = cm.EditorState.create({
    doc: text,
    extensions: [
      cm.keymap.of([...keys, ...usual.filter((each) => each.key !== "Mod-Enter")]),
      cm.lineNumbers(),
      cm.history(),
      cm.search({ top: true }),
      cm.highlightActiveLine(),
      cm.highlightActiveLineGutter(),
      cm.placeholder(PLACEHOLDER),
      cm.EditorState.tabSize.of(4),
      cm.EditorView.contentAttributes.of({ id: "plan-text", "aria-label": "The text of the plan", tabindex: "0", autocapitalize: "off" }),
      cm.autocompletion({ override: [(context) => proposals(cm, context, now)], icons: false }),
      cm.hoverTooltip((view, at) => explanationAt(cm, view.state, at, now)),
      marks.field,
      explained.field,
      renaming.field,
      theme(cm),
      cm.EditorView.domEventHandlers({
        beforeinput: writesItself,
        click(event, view) {
          const at = event.ctrlKey || event.metaKey ? view.posAtCoords({ x: event.clientX, y: event.clientY }) : null;
          return at !== null && goToDefinition(cm, view, now, at);
        },
      }),
      cm.EditorView.updateListener.of((update) => {
        const isByPage = update.transactions.some((each) => each.annotation(own));
        if (update.docChanged && !isByPage) now.current.onText(update.state.doc.toString());
      }),
    ],
  });
  return { cm, marks, own, Hint: hintWidget(cm), view: new cm.EditorView({ state, parent: root, root }) };
}

// Writes what is typed itself: a browser would write styles into the text where it replaces something, which the
// page's policy forbids.
function writesItself(event, view) {
  if (event.inputType !== "insertText" || event.isComposing || view.composing) return false;
  const { from, to } = selected(view);
  const insert = view.state.toText(event.data ?? "");
  const selection = { anchor: from + insert.length };
  view.dispatch({ changes: { from, to, insert }, selection, userEvent: "input.type", scrollIntoView: true });
  event.preventDefault();
  return true;
}

// The selection as the browser has it, of which the editor may be told only later.
function selected(view) {
  const range = view.root.getSelection ? view.root.getSelection() : document.getSelection();
  if (!range || !view.contentDOM.contains(range.anchorNode)) return view.state.selection.main;
  const ends = [view.posAtDOM(range.anchorNode, range.anchorOffset), view.posAtDOM(range.focusNode, range.focusOffset)];
  return { from: Math.min(...ends), to: Math.max(...ends) };
}

// What other parts of the page do with the text. Offsets count UTF-16 units.
const controls = (cm, view) => ({
  get value() {
    return view.state.doc.toString();
  },
  focus: () => view.focus(),
  goTo(at) {
    const to = Math.min(at, view.state.doc.length);
    view.dispatch({ selection: { anchor: to }, effects: cm.EditorView.scrollIntoView(to, { y: "center" }) });
    view.focus();
  },
});

// Replaces what differs, so that the cursor stays where it is.
function replaceText({ view, own }, text) {
  const before = view.state.doc.toString();
  if (before === text) return;
  let from = 0;
  const most = Math.min(before.length, text.length);
  while (from < most && before[from] === text[from]) from += 1;
  let behind = 0;
  while (behind < most - from && before[before.length - 1 - behind] === text[text.length - 1 - behind]) behind += 1;
  const changes = { from, to: before.length - behind, insert: text.slice(from, text.length - behind) };
  // an event of its own is undone by itself, and not with what was typed just before
  view.dispatch({ changes, annotations: own.of(true), userEvent: "replace" });
}

// ---------------------------------------------------------------- colours, hints and findings

function marksField(cm) {
  const set = cm.StateEffect.define();
  const field = cm.StateField.define({
    create: () => cm.Decoration.none,
    update(shown, change) {
      const told = change.effects.find((effect) => effect.is(set));
      return told ? told.value : shown.map(change.changes);
    },
    provide: (of) => cm.EditorView.decorations.from(of),
  });
  return { set, field };
}

// Shows what was found for exactly this text; what was found before moves with it.
function show({ cm, view, marks, Hint }, marked) {
  const text = view.state.doc.toString();
  if (!marked || marked.of !== text) return;
  const units = unitsOf(text);
  const ranges = [];
  const { tokens = [], kinds = [], hints = [] } = marked;
  const styles = kinds.map((kind) => cm.Decoration.mark({ class: kind.split(" ").map((word) => `is-${word}`).join(" ") }));
  for (let n = 0, at = 0; n < tokens.length; n += 3) {
    at += tokens[n];
    ranges.push(styles[tokens[n + 2]].range(units(at), units(at + tokens[n + 1])));
  }
  for (const { at, text: words, tip } of hints)
    ranges.push(cm.Decoration.widget({ widget: new Hint(words, tip), side: 1 }).range(units(at)));
  view.dispatch({ effects: marks.set.of(cm.Decoration.set(ranges, true)) });
  view.dispatch(cm.setDiagnostics(view.state, findings(marked.diagnostics, text, units)));
}

function hintWidget(cm) {
  return class extends cm.WidgetType {
    constructor(words, tip) {
      super();
      this.words = words;
      this.tip = tip;
    }
    eq(other) {
      return other.words === this.words && other.tip === this.tip;
    }
    toDOM() {
      const shown = document.createElement("span");
      shown.className = "hint";
      shown.textContent = this.words;
      shown.title = this.tip;
      return shown;
    }
  };
}

function findings(rows, text, units) {
  const starts = lineStarts(text);
  return rows
    .filter((row) => row.line)
    .map((row) => {
      const from = offset(text, starts, row.line, row.column);
      const to = Math.max(from, offset(text, starts, row.end_line, row.end_column));
      const actions = fixesOf(row).map((fix) => ({
        name: fix.title,
        apply: (view) => {
          if (view.state.doc.toString() !== text) return; // a fix is for the text that it was made for
          const edits = fix.edits.map((edit) => ({ from: units(edit.start), to: units(edit.end), insert: edit.text }));
          view.dispatch({ changes: edits, userEvent: "input.fix" });
          view.focus();
        },
      }));
      const message = row.help ? `${row.message}\n${row.help}` : row.message;
      return { from, to, severity: SEVERITIES[row.severity], source: row.code, message, actions };
    });
}

export const fixesOf = (row) => row.fixes || (row.fix ? [row.fix] : []);

// ---------------------------------------------------------------- proposals

async function proposals(cm, context, now) {
  const { state, pos } = context;
  const line = state.doc.lineAt(pos);
  if (!context.explicit && !COMPLETES.test(line.text.slice(0, pos - line.from))) return null;
  const abort = new AbortController();
  context.addEventListener("abort", () => abort.abort());
  const text = state.doc.toString();
  const body = { plan: text, at: charactersBefore(text, pos), ...now.current.terms };
  const { proposals: rows } = await request("/v1/editor/completion", { body, signal: abort.signal }).catch(() => ({ proposals: [] }));
  if (!rows.length) return null;
  const units = unitsOf(text);
  const from = units(Math.min(...rows.map((row) => row.start)));
  const options = rows.map((row, number) => ({
    label: row.label,
    detail: row.detail,
    type: row.sort,
    boost: Math.max(-99, 99 - number), // in the order of the server
    info: row.about ? () => markdown(row.about) : undefined,
    apply: (view, option, _from, to) => {
      const start = units(row.start);
      if (row.snippet) cm.snippet(template(row.snippet))(view, option, start, to);
      else view.dispatch({ changes: { from: start, to, insert: row.insert }, selection: { anchor: start + row.insert.length }, userEvent: "input.complete" });
    },
  }));
  return { from, options, validFor: /^[\w@$?{.-]*$/ };
}

// A template of the library from a snippet of the language server protocol: `$1`, `${1:text}`, `$0`, `\$`.
const template = (snippet) =>
  snippet.replace(/\\(.)|\$(\d+)|\$\{(\d+)(?::([^}]*))?\}|\{/g, (whole, escaped, number, named, words) => {
    if (escaped) return escaped === "{" || escaped === "}" ? `\\${escaped}` : escaped;
    if (whole === "{") return "\\{";
    const tab = number ?? named;
    return tab === "0" ? "${}" : `\${${tab}${words ? `:${words}` : ""}}`;
  });

// ---------------------------------------------------------------- explanations

// The explanation of the word at a place of the text, as a tooltip; null if there is none.
async function explanationAt(cm, state, at, now) {
  const text = state.doc.toString();
  const body = { plan: text, at: charactersBefore(text, at), ...now.current.terms };
  const told = await request("/v1/editor/hover", { body }).catch(() => ({}));
  if (!told.about) return null;
  const units = unitsOf(text);
  const create = () => {
    const dom = markdown(told.about);
    dom.classList.add("explanation");
    return { dom };
  };
  return { pos: units(told.start), end: units(told.end), above: true, create };
}

// The explanation that a key has asked for; it goes with the next change or move.
function explanationField(cm) {
  const set = cm.StateEffect.define();
  const field = cm.StateField.define({
    create: () => null,
    update(shown, change) {
      const told = change.effects.find((effect) => effect.is(set));
      if (told) return told.value;
      return change.docChanged || change.selection ? null : shown;
    },
    provide: (of) => cm.showTooltip.from(of),
  });
  return { set, field };
}

function hidden(view, { set, field }) {
  if (!view.state.field(field)) return false;
  view.dispatch({ effects: set.of(null) });
  return true;
}

// ---------------------------------------------------------------- places

function lineStarts(text) {
  const found = [0];
  for (let n = text.indexOf("\n"); n >= 0; n = text.indexOf("\n", n + 1)) found.push(n + 1);
  return found;
}

// The offset of a line and column, both from 1; columns count characters, not UTF-16 units.
function offset(text, starts, line, column) {
  const from = starts[Math.min(line, starts.length) - 1];
  const rest = text.slice(from, starts[line] ?? text.length + 1);
  return Math.min(text.length, from + [...rest].slice(0, column - 1).join("").length);
}

// Moves the cursor to a line and column.
export const setCursor = (box, text, line, column) => box.current?.goTo(offset(text, lineStarts(text), line, column));

// Moves the cursor to an offset in characters.
export const setCursorAt = (box, text, place) => box.current?.goTo(unitsOf(text)(place));
