// What the editor of the web viewer takes from CodeMirror.
export { autocompletion, snippet } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { nextDiagnostic, setDiagnostics } from "@codemirror/lint";
export { search, searchKeymap } from "@codemirror/search";
export { Annotation, EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
export {
  Decoration, EditorView, WidgetType, highlightActiveLine, highlightActiveLineGutter, hoverTooltip, keymap,
  lineNumbers, placeholder, showTooltip,
} from "@codemirror/view";
