// The plan that is being written, kept while the browser's tab is open.
import { effect, signal } from "@preact/signals";

const NAME = "callsheet.draft";

function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(NAME)) || { text: "", inputs: {} };
  } catch {
    return { text: "", inputs: {} };
  }
}

export const draft = signal(kept());

effect(() => {
  const text = JSON.stringify(draft.value);
  try {
    sessionStorage.setItem(NAME, text);
  } catch {
    return; // a browser may not let a page keep anything
  }
});
