// Folding the rows of a plan with blocks, in its graph: which are inside which, what is left, and the buttons.
import { useMemo, useState } from "preact/hooks";
import { html } from "./ui.js";

const FOLDED_FROM = 60; // a plan with more rows begins with its inner blocks folded

// The path of each row of a plan with blocks, which it keeps when rows are added elsewhere, and how many stand inside it.
function rowsOf({ steps, layout: { places } }) {
  const open = []; // the rows around
  const counts = places.map(() => 0);
  const times = {}; // how often a path came, to tell apart rows without a name of their own
  const paths = places.map(([, depth], n) => {
    while (open.length && places[open[open.length - 1].n][1] >= depth) open.pop();
    for (const around of open) counts[around.n] += 1;
    const named = `${open.length ? open[open.length - 1].path : ""}/${steps[n].id || steps[n].tool}`;
    times[named] = (times[named] || 0) + 1;
    const path = times[named] > 1 ? `${named}#${times[named]}` : named;
    open.push({ n, path });
    return path;
  });
  return { paths, counts };
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

// The folds of plans, each with steps and a layout; what was folded or shown stays so when a plan changes. Returns the
// layouts as they are drawn, and by plan and row how many rows are inside, whether they are folded, and what changes that.
export function useFolds(plans) {
  const [chosen, setChosen] = useState({}); // by plan, whether the rows of these paths are folded
  const size = plans.map(({ layout }) => layout.places.length).join();
  const parts = useMemo(
    () => plans.map((plan) => (plan.layout.is_nested ? rowsOf(plan) : { paths: [], counts: [] })),
    [size, plans[0].layout],
  );
  const closed = useMemo(
    () =>
      plans.map(({ layout }, which) => {
        const { paths, counts } = parts[which];
        const first = foldedAtFirst(layout, counts);
        const isClosed = (path, n) => chosen[which]?.[path] ?? first.has(n);
        return new Set(paths.flatMap((path, n) => (counts[n] && isClosed(path, n) ? [n] : [])));
      }),
    [parts, chosen],
  );
  const layouts = useMemo(
    () => plans.map(({ layout }, which) => (layout.is_nested ? withFolds(layout, closed[which], parts[which].counts) : layout)),
    [closed],
  );
  const change = (which, rows, isClosed) => {
    const changed = Object.fromEntries(rows.map((n) => [parts[which].paths[n], isClosed]));
    setChosen((before) => ({ ...before, [which]: { ...before[which], ...changed } }));
  };
  return {
    layouts,
    inside: (which, n) => parts[which].counts[n] || 0,
    isClosed: (which, n) => closed[which].has(n),
    fold: (which, n) => change(which, [n], !closed[which].has(n)),
    // unfolds what stands around a row
    show: (which, n) =>
      change(which, [...closed[which]].filter((row) => row < n && n <= row + parts[which].counts[row]), false),
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
