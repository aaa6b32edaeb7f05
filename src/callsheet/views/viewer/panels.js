// The bars between the panels of a run: they are moved by pointer or keys, and fold the panel beside them away.
import { useState } from "preact/hooks";
import { html } from "./ui.js";

const STEP = 24; // how far an arrow key moves a bar, in pixels
const LEAST = 90; // a panel that would be smaller is folded away
const PLACE = "callsheet-panels";

// The sizes in pixels that were chosen, by panel; 0 is folded away. They are kept for all runs.
function kept() {
  try {
    return JSON.parse(localStorage.getItem(PLACE)) || {};
  } catch {
    return {}; // a page of a file may have no storage
  }
}

export function usePanels() {
  const [sizes, setSizes] = useState(kept);
  const resize = (name, size) =>
    setSizes((before) => {
      const { [name]: _, ...others } = before;
      const after = size === null ? others : { ...others, [name]: size };
      try {
        localStorage.setItem(PLACE, JSON.stringify(after));
      } catch {
        // as above
      }
      return after;
    });
  const style = Object.fromEntries(
    Object.entries(sizes).map(([name, size]) => [`--${name}`, `min(${size}px, ${name === "below" ? 70 : 42}%)`]),
  ); // the centre keeps some room, also in a window that is smaller than that in which the size was chosen
  const folded = Object.keys(sizes).filter((name) => sizes[name] === 0);
  return { sizes, resize, style, names: folded.map((name) => `no-${name}`).join(" ") };
}

// A bar beside the panel `of`, which lies to its left, to its right or below it.
export function Splitter({ of: name, label, side, panels }) {
  const isAcross = side === "below"; // moved up and down
  const size = panels.sizes[name];
  const panelOf = (bar) =>
    isAcross ? bar.parentElement.nextElementSibling : side === "left" ? bar.previousElementSibling : bar.nextElementSibling;
  const measured = (bar) => panelOf(bar).getBoundingClientRect()[isAcross ? "height" : "width"];
  const resize = (to) => panels.resize(name, to < LEAST ? 0 : Math.round(to));
  const toggle = () => panels.resize(name, size === 0 ? null : 0);
  const grows = side === "left" ? 1 : -1; // whether the panel grows when the bar moves right or down
  const onKey = (event) => {
    const along = isAcross ? { ArrowUp: -1, ArrowDown: 1 } : { ArrowLeft: -1, ArrowRight: 1 };
    const bar = event.currentTarget;
    if (event.key in along) {
      const by = grows * along[event.key] * STEP;
      resize(size === 0 ? (by > 0 ? LEAST : 0) : measured(bar) + by);
    } else if (event.key === "Enter") toggle();
    else if (event.key === "Home" || event.key === "Escape") panels.resize(name, null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const onDown = (event) => {
    if (event.button) return;
    const bar = event.currentTarget;
    const from = isAcross ? event.clientY : event.clientX;
    const before = size === 0 ? 0 : measured(bar);
    bar.setPointerCapture(event.pointerId);
    bar.onpointermove = (moved) => resize(before + grows * ((isAcross ? moved.clientY : moved.clientX) - from));
    bar.onpointerup = bar.onpointercancel = () => (bar.onpointermove = null);
  };
  return html`<div class=${`splitter is-${side}`} role="separator" tabindex="0" aria-label=${`Size of ${label}`}
    aria-orientation=${isAcross ? "horizontal" : "vertical"} aria-valuenow=${size === undefined ? 50 : Math.round(Math.min(100, size / 10))}
    aria-valuetext=${size === undefined ? "as usual" : size ? `${size} pixels` : "folded away"}
    title="Drag, or arrow keys; Enter or a double click folds it away, Home is the usual size"
    onPointerDown=${onDown} onKeyDown=${onKey} onDblClick=${toggle}></div>`;
}
