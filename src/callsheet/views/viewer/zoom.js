// A picture of a plan that is zoomed and moved: by buttons, keys, wheel and pointer.
import { useLayoutEffect, useState } from "preact/hooks";
import { html } from "./ui.js";

const [LEAST, MOST] = [0.1, 2.5];
const FACTOR = 1.25;
const FREE = ".node, .fold, .lost"; // what a press is meant for elsewhere

// `box` refers to the part that scrolls, `natural` is the scale before any is chosen; width and height are those of the
// picture at scale 1. Returns the scale, and what the box and the buttons need.
export function useZoom(box, natural, width, height) {
  const [chosen, setChosen] = useState(null);
  const scale = chosen === null ? natural : chosen;
  const by = (factor) => setChosen(Math.max(LEAST, Math.min(MOST, scale * factor)));
  const fit = () => {
    const { clientWidth, clientHeight } = box.current;
    setChosen(Math.max(LEAST, Math.min(1, (clientWidth - 12) / width, (clientHeight - 12) / height)));
  };
  const acts = { "+": () => by(FACTOR), "=": () => by(FACTOR), "-": () => by(1 / FACTOR), 0: fit };
  const onKeyDown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  };
  useLayoutEffect(() => {
    const element = box.current;
    const onWheel = (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault(); // the browser would zoom the page
      by(event.deltaY < 0 ? FACTOR : 1 / FACTOR);
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });
  const onPointerDown = (event) => {
    const element = box.current;
    if (event.button || event.pointerType === "touch" || event.target.closest(FREE)) return;
    if (event.target === element && (event.offsetX > element.clientWidth || event.offsetY > element.clientHeight))
      return; // on a scroll bar
    const [x, y, left, top] = [event.clientX, event.clientY, element.scrollLeft, element.scrollTop];
    const move = (moved) => {
      element.scrollLeft = left - (moved.clientX - x);
      element.scrollTop = top - (moved.clientY - y);
    };
    const ending = new AbortController();
    const { signal } = ending;
    addEventListener("pointermove", move, { signal });
    for (const name of ["pointerup", "pointercancel", "blur"]) addEventListener(name, () => ending.abort(), { signal });
  };
  return { scale, by, fit, on: { onKeyDown, onPointerDown } };
}

export function ZoomButtons({ zoom }) {
  return html`<div class="zoom" role="group" aria-label="Size of the graph">
    <button class="plain" onClick=${() => zoom.by(1 / FACTOR)} title="smaller (-)" aria-label="− smaller">−</button>
    <button class="plain" onClick=${zoom.fit} title="all of it (0)">fit</button>
    <button class="plain" onClick=${() => zoom.by(FACTOR)} title="larger (+, or Ctrl and the wheel)" aria-label="+ larger">+</button>
  </div>`;
}
