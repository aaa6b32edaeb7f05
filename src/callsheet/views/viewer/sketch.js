// The graph of a plan that has not run, drawn like that of a run.
import { useMemo, useRef } from "preact/hooks";
import { html } from "./ui.js";
import { Fold, useFolds } from "./folding.js";
import { ZoomButtons, useZoom } from "./zoom.js";
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
  const box = useRef(null);
  const { steps } = plan;
  const folds = useFolds([plan]);
  const [layout] = folds.layouts;
  const { x, y } = useMemo(() => positions(layout), [layout]);
  const width = layoutWidth(layout);
  const shown = steps.map((_, n) => n).filter((n) => layout.places[n]).slice(0, MAX_STEPS);
  const last = shown.length ? shown[shown.length - 1] : -1;
  const rows = Math.max(0, ...shown.map((n) => layout.places[n][0] + 1));
  const height = MARGIN * 2 + rows * (NODE_HEIGHT + ROW_GAP);
  const zoom = useZoom(box, 1, width, height);
  return html`<div class="graph-frame"><${ZoomButtons} zoom=${zoom} />
    <div class="dag sketch" tabindex="0" role="group" aria-label="The plan as a graph" ref=${box} ...${zoom.on}>
    ${steps.length > MAX_STEPS ? html`
      <p class="notice">These are the first ${shown.length} of ${steps.length} steps.</p>` : ""}
    <svg width=${width * zoom.scale} height=${height * zoom.scale} viewBox=${`0 0 ${width} ${height}`} role="group"
        aria-label="Steps and dependencies">
      <defs>
        <marker id="tip-sketch" class="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
            orient="auto"><path d="M0 0.6 L8 4 L0 7.4 z" /></marker>
      </defs>
      <${Groups} steps=${steps.slice(0, last + 1)} x=${x} y=${y} />
      ${layout.arrows.map(([start, end, kind, lane], n) =>
        start <= last && end <= last
          ? html`<path key=${n} class=${`arrow ${kind}`} d=${arrowPath(layout, x, y, start, end, kind, lane)}
              marker-end="url(#tip-sketch)" />`
          : "",
      )}
      ${shown.map((n) => html`<${Node} key=${n} row=${steps[n]} x=${x(n)} y=${y(n)} onPick=${onPick} />`)}
      ${shown.map((n) => folds.inside(0, n) ? html`<${Fold} key=${n} x=${x(n) + NODE_WIDTH + 6} y=${y(n) + NODE_HEIGHT / 2}
        count=${folds.inside(0, n)} name=${steps[n].id || steps[n].tool} isFolded=${folds.isClosed(0, n)}
        onFold=${() => folds.fold(0, n)} />` : "")}
    </svg>
  </div></div>`;
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
