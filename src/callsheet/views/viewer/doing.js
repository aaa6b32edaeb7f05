// What people do with a run where a server does it: buttons that say what came of it.
import { useRef, useState } from "preact/hooks";
import { html } from "./ui.js";

// A way to read things: [what went wrong, whether something is being read, read(something)].
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

// A way to do things, one at a time: [what went wrong, whether something is being done, do(something)].
// A second key or click can come before the page shows that the first is being carried out: it does nothing.
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

// What takes the value of a field that was changed.
export const into = (set) => (event) => set(event.currentTarget.value);

export function Wrong({ said }) {
  return said ? html`<p class="why is-failed" role="alert">${said}</p>` : "";
}

// What somebody has typed as a value: JSON where it is some, else the text itself.
export function typed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
