// Hooks and components for requests and actions: their progress, and their errors.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./ui.js";

// A hook for asynchronous requests: [error message, whether one is running, read(request)].
export function useRequest() {
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const read = async (request) => {
    setBusy(true);
    setProblem("");
    try {
      await request();
    } catch (error) {
      setProblem(error.message);
    }
    setBusy(false);
  };
  return [problem, isBusy, read];
}

// A hook for actions, one at a time: [error message, whether one is running, act(action)].
// A second key press or click before the page shows that the first action is running is ignored.
export function useAction() {
  const [problem, isBusy, read] = useRequest();
  const isRunning = useRef(false);
  const act = async (action) => {
    if (isRunning.current) return;
    isRunning.current = true;
    await read(action);
    isRunning.current = false;
  };
  return [problem, isBusy, act];
}

// Returns an event handler that passes the value of a changed field to a setter.
export const into = (set) => (event) => set(event.currentTarget.value);

export function ErrorMessage({ text }) {
  const box = useSeen(text);
  return text ? html`<p class="why is-failed" role="alert" ref=${box}>${text}</p>` : "";
}

// A reference to an element that is scrolled into view when it appears or `what` it shows changes, so that nobody
// misses it below the visible part of a pane.
export function useSeen(what) {
  const box = useRef(null);
  useEffect(() => {
    if (what && box.current) box.current.scrollIntoView({ block: "nearest" });
  }, [what]);
  return box;
}

// Returns the value of a typed text: parsed if it is JSON, otherwise the text itself.
export function typed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
