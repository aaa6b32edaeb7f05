// The edited plan, which is stored while the browser tab is open.
import { computed, effect, signal } from "@preact/signals";

const STORAGE_KEY = "callsheet.draft";
const NOTHING = { text: "", inputs: {}, terms: null }; // the terms of a run that this one is like; secrets are not kept

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY)) || NOTHING;
  } catch {
    return NOTHING;
  }
}

export const draft = signal(stored());
export const draftText = computed(() => draft.value.text);

effect(() => {
  const text = JSON.stringify(draft.value);
  try {
    sessionStorage.setItem(STORAGE_KEY, text);
  } catch {
    return; // the browser may not allow storage
  }
});
