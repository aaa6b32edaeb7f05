// The graph of a plan that has not run, drawn like that of a run.
import { useMemo } from "preact/hooks";
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

export function Sketch({ plan, onPick }) {
  const { layout, steps } = plan;
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
    </svg>
  </div>`;
}

function Node({ row, x, y, onPick }) {
  const pick = () => onPick(row);
  const onKey = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    pick();
  };
  const below = truncated(row.guard ? `if ${row.guard}` : row.output || row.action, row.foreach ? 20 : 26);
  const id = truncated(row.id, 9);
  const tool = truncated(row.title || row.tool, Math.max(6, 23 - Math.min(row.id.length, 9)));
  const name = [id, tool, below, row.foreach ? "each" : ""].filter(Boolean).join(" "); // as it is seen
  return html`<g class="node is-pending" transform=${`translate(${x} ${y})`} role="button" tabindex="0"
      aria-label=${name} onClick=${pick} onKeyDown=${onKey}>
    ${row.foreach ? html`<rect class="behind" x="5" y="5" width=${NODE_WIDTH} height=${NODE_HEIGHT} rx="8" />` : ""}
    <rect class="card" width=${NODE_WIDTH} height=${NODE_HEIGHT} rx="8" />
    <rect class="edge" width="5" height=${NODE_HEIGHT - 16} x="0" y="8" rx="2.5" />
    <text class="id" x="16" y="23">${id}</text>${" "}
    <text class="tool" x=${16 + 8.2 * Math.min(row.id.length, 9) + 6}
        y="23">${tool}</text>${" "}
    <text class="out" x="16" y="42">${below}</text>${" "}
    ${row.foreach ? html`<text class="badge" x=${NODE_WIDTH - 10} y="42" text-anchor="end">each</text>` : ""}
    <title>${[row.action, row.guard && `if ${row.guard}`, row.foreach, row.on_fail && `ON_FAIL ${row.on_fail}`]
      .filter(Boolean)
      .join("\n")}</title>
  </g>`;
}
