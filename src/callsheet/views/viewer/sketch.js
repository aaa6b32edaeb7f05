// The graph of a plan that has not run, drawn like that of a run.
import { useMemo, useState } from "preact/hooks";
import { html } from "./ui.js";
import {
  Groups,
  MARGIN,
  NODE_HEIGHT,
  NODE_WIDTH,
  ROW_GAP,
  arrowPath,
  layoutWidth,
  positions,
  truncated,
} from "./dag.js";

const MAX_STEPS = 500;

const FOLDED_FROM = 60; // a plan with more rows begins with its inner blocks folded

export function Sketch({ plan, onPick }) {
  const [folded, setFolded] = useState(null); // the rows whose blocks are folded; null before anything is
  const first = useMemo(() => foldedAtFirst(plan), [plan]);
  const closed = folded && folded.of === plan ? folded.rows : first;
  const { layout, steps, inside } = useMemo(() => unfolded(plan, closed), [plan, closed]);
  const fold = (row) => {
    const rows = new Set(closed);
    if (!rows.delete(row)) rows.add(row);
    setFolded({ of: plan, rows });
  };
  const { x, y } = useMemo(() => positions(layout), [layout]);
  const width = layoutWidth(layout);
  const shown = steps.slice(0, MAX_STEPS);
  const rows = Math.max(0, ...layout.places.slice(0, MAX_STEPS).map(([row]) => row + 1));
  const height = MARGIN * 2 + rows * (NODE_HEIGHT + ROW_GAP);
  return html`<div class="dag sketch" tabindex="0" role="group" aria-label="The plan as a graph">
    ${steps.length > MAX_STEPS ? html`
      <p class="notice">These are the first ${MAX_STEPS} of ${steps.length} steps.</p>` : ""}
    <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group"
        aria-label="Steps and dependencies">
      <defs>
        <marker id="tip-sketch" class="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
            orient="auto"><path d="M0 0.6 L8 4 L0 7.4 z" /></marker>
      </defs>
      <${Groups} steps=${shown} x=${x} y=${y} />
      ${layout.arrows.map(([start, end, kind, lane], n) =>
        start < MAX_STEPS && end < MAX_STEPS
          ? html`<path key=${n} class=${`arrow ${kind}`} d=${arrowPath(layout, x, y, start, end, kind, lane)}
              marker-end="url(#tip-sketch)" />`
          : "",
      )}
      ${shown.map((row, n) => html`<${Node} key=${n} row=${row} x=${x(n)} y=${y(n)} onPick=${onPick} />`)}
      ${shown.map((row, n) => inside && inside[n] ? html`<${Fold} key=${row.number} x=${x(n)} y=${y(n)} count=${inside[n]}
        name=${row.id || row.tool} isFolded=${closed.has(row.number)} onFold=${() => fold(row.number)} />` : "")}
    </svg>
  </div>`;
}

// How many rows stand inside each row of a plan with blocks.
function countsInside({ layout }) {
  const open = []; // the rows around, each with its depth
  const counts = layout.places.map(() => 0);
  layout.places.forEach(([, depth], n) => {
    while (open.length && layout.places[open[open.length - 1]][1] >= depth) open.pop();
    for (const around of open) counts[around] += 1;
    open.push(n);
  });
  return counts;
}

function foldedAtFirst(plan) {
  if (!plan.layout.is_nested || plan.steps.length <= FOLDED_FROM) return new Set();
  const counts = countsInside(plan);
  return new Set(counts.flatMap((count, n) => (count && plan.layout.places[n][1] > 0 ? [n] : [])));
}

// A plan without the rows inside those that are folded; `inside` counts them.
function unfolded(plan, closed) {
  if (!plan.layout.is_nested) return plan;
  const counts = countsInside(plan);
  const kept = [];
  for (let n = 0; n < plan.steps.length; n += 1) {
    kept.push(n);
    if (closed.has(n)) n += counts[n];
  }
  const apart = new Set(plan.layout.apart); // the rows to which the row above does not lead
  const depths = kept.map((n) => plan.layout.places[n][1]);
  const arrows = depths.slice(1).flatMap((depth, n) =>
    depths[n] <= depth + 1 && !apart.has(kept[n + 1]) ? [[n, n + 1, "next", 0]] : [],
  );
  return {
    steps: kept.map((n) => ({ ...plan.steps[n], number: n })),
    layout: { ...plan.layout, rows: kept.length, places: depths.map((depth, row) => [row, depth]), arrows },
    inside: kept.map((n) => counts[n]),
  };
}

// The button that folds what stands inside a row.
function Fold({ x, y, count, name, isFolded, onFold }) {
  const press = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onFold();
  };
  const text = isFolded ? `▸ ${count}` : "▾";
  return html`<g class="fold" transform=${`translate(${x + NODE_WIDTH + 6} ${y + NODE_HEIGHT / 2 - 12})`} role="button"
      tabindex="0" aria-expanded=${String(!isFolded)} aria-label=${`${text} ${name}: ${count} inside`}
      onClick=${press} onKeyDown=${press}>
    <rect width=${isFolded ? 44 : 24} height="24" rx="6" />
    <text x=${isFolded ? 22 : 12} y="17" text-anchor="middle">${text}</text>
  </g>`;
}

function Node({ row, x, y, onPick }) {
  const pick = () => onPick(row);
  const onKey = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    pick();
  };
  const does = row.action === row.tool ? "" : row.action; // a word alone, as ELSE, is said once
  const below = truncated(row.guard ? `if ${row.guard}` : row.output || does, row.foreach ? 20 : 26);
  const id = truncated(row.id, 9);
  const wide = id ? 8.2 * id.length + 6 : 0;
  const tool = truncated(row.title || row.tool, Math.max(6, 23 - id.length));
  const name = [id, tool, below, row.foreach ? "each" : ""].filter(Boolean).join(" "); // as it is seen
  return html`<g class="node is-pending" transform=${`translate(${x} ${y})`} role="button" tabindex="0"
      aria-label=${name} onClick=${pick} onKeyDown=${onKey}>
    ${row.foreach ? html`<rect class="behind" x="5" y="5" width=${NODE_WIDTH} height=${NODE_HEIGHT} rx="8" />` : ""}
    <rect class="card" width=${NODE_WIDTH} height=${NODE_HEIGHT} rx="8" />
    <rect class="edge" width="5" height=${NODE_HEIGHT - 16} x="0" y="8" rx="2.5" />
    <text class="id" x="16" y="23">${id}</text>${" "}
    <text class="tool" x=${16 + wide}
        y="23">${tool}</text>${" "}
    <text class="out" x="16" y="42">${below}</text>${" "}
    ${row.foreach ? html`<text class="badge" x=${NODE_WIDTH - 10} y="42" text-anchor="end">each</text>` : ""}
    <title>${[row.action, row.guard && `if ${row.guard}`, row.foreach, row.on_fail && `ON_FAIL ${row.on_fail}`]
      .filter(Boolean)
      .join("\n")}</title>
  </g>`;
}
