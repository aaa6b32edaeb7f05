// The edited plan, which is stored while the browser tab is open.
import { effect, signal } from "@preact/signals";

const STORAGE_KEY = "callsheet.draft";

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY)) || { text: "", inputs: {} };
  } catch {
    return { text: "", inputs: {} };
  }
}

export const draft = signal(stored());

effect(() => {
  const text = JSON.stringify(draft.value);
  try {
    sessionStorage.setItem(STORAGE_KEY, text);
  } catch {
    return; // the browser may not allow storage
  }
});
