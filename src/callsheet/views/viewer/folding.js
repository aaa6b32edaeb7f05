// Folding the rows of a plan with blocks, in its graph: which are inside which, what is left, and the buttons.
import { useMemo, useState } from "preact/hooks";
import { html } from "./ui.js";

const FOLDED_FROM = 60; // a plan with more rows begins with its inner blocks folded

// How many rows stand inside each row of a plan with blocks.
function countsInside(places) {
  const open = []; // the rows around
  const counts = places.map(() => 0);
  places.forEach(([, depth], n) => {
    while (open.length && places[open[open.length - 1]][1] >= depth) open.pop();
    for (const around of open) counts[around] += 1;
    open.push(n);
  });
  return counts;
}

const foldedAtFirst = ({ places }, counts) =>
  new Set(places.length > FOLDED_FROM ? counts.flatMap((count, n) => (count && places[n][1] > 0 ? [n] : [])) : []);

// A layout without the rows inside those that are folded: their places are null.
function withFolds(layout, closed, counts) {
  const places = layout.places.map(() => null);
  const kept = [];
  for (let n = 0; n < layout.places.length; n += 1) {
    places[n] = [kept.length, layout.places[n][1]];
    kept.push(n);
    if (closed.has(n)) n += counts[n];
  }
  const apart = new Set(layout.apart); // the rows to which the row above does not lead
  const arrows = kept.slice(1).flatMap((n, at) => {
    const above = kept[at];
    return places[above][1] <= places[n][1] + 1 && !apart.has(n) ? [[above, n, "next", 0]] : [];
  });
  return { ...layout, rows: kept.length, places, arrows };
}

// The folds of layouts, which are the same as long as they have as many rows. Returns the layouts as they are drawn, and
// by layout and row how many rows are inside, whether they are folded, and what folds or shows them.
export function useFolds(layouts) {
  const [chosen, setChosen] = useState({}); // by layout, the rows whose blocks are folded
  const size = layouts.map((layout) => layout.places.length).join();
  const parts = useMemo(
    () => layouts.map((layout) => (layout.is_nested ? countsInside(layout.places) : [])),
    [size, layouts[0]],
  );
  const closedOf = (which, from = chosen) =>
    from[which] && from[which].size === size ? from[which].rows : foldedAtFirst(layouts[which], parts[which]);
  const change = (which, act) =>
    setChosen((before) => {
      const rows = new Set(closedOf(which, before));
      act(rows);
      return { ...before, [which]: { size, rows } };
    });
  const drawn = useMemo(
    () => layouts.map((layout, which) => (layout.is_nested ? withFolds(layout, closedOf(which), parts[which]) : layout)),
    [layouts[0], size, chosen],
  );
  return {
    layouts: drawn,
    inside: (which, n) => parts[which][n] || 0,
    isClosed: (which, n) => closedOf(which).has(n),
    fold: (which, n) => change(which, (rows) => rows.delete(n) || rows.add(n)),
    // unfolds what stands around a row
    show: (which, n) => change(which, (rows) => [...rows].forEach((row) => row < n && n <= row + parts[which][row] && rows.delete(row))),
  };
}

// The button that folds what stands inside a row, with its left edge at x.
export function Fold({ x, y, count, name, isFolded, onFold }) {
  const press = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onFold();
  };
  const text = isFolded ? `▸ ${count}` : "▾";
  return html`<g class="fold" transform=${`translate(${x} ${y - 12})`} role="button"
      tabindex="0" aria-expanded=${String(!isFolded)} aria-label=${`${text} ${name}: ${count} inside`}
      onClick=${press} onKeyDown=${press}>
    <rect width=${isFolded ? 44 : 24} height="24" rx="6" />
    <text x=${isFolded ? 22 : 12} y="17" text-anchor="middle">${text}</text>
  </g>`;
}
