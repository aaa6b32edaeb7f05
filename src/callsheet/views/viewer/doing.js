// Shared parts of forms that send actions to a server, with their errors.
import { useRef, useState } from "preact/hooks";
import { html } from "./ui.js";

// A hook for asynchronous requests: [error message, whether one is running, read(request)].
export function useReading() {
  const [wrong, setWrong] = useState("");
  const [isBusy, setBusy] = useState(false);
  const read = async (something) => {
    setBusy(true);
    setWrong("");
    try {
      await something();
    } catch (error) {
      setWrong(error.message);
    }
    setBusy(false);
  };
  return [wrong, isBusy, read];
}

// A hook for actions, one at a time: [error message, whether one is running, act(action)].
// A second key press or click before the page shows that the first action is running is ignored.
export function useDoing() {
  const [wrong, isBusy, read] = useReading();
  const isDoing = useRef(false);
  const act = async (something) => {
    if (isDoing.current) return;
    isDoing.current = true;
    await read(something);
    isDoing.current = false;
  };
  return [wrong, isBusy, act];
}

// Returns an event handler that passes the value of a changed field to a setter.
export const into = (set) => (event) => set(event.currentTarget.value);

export function Wrong({ said }) {
  return said ? html`<p class="why is-failed" role="alert">${said}</p>` : "";
}

// Returns the value of a typed text: parsed if it is JSON, otherwise the text itself.
export function typed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
