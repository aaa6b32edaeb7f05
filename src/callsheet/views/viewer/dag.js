// The plan as a graph. The layout is part of the data: steps in rows, long arrows on lanes beside them.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { STATUS, band, html } from "./ui.js";
import { Fold, useFolds } from "./folding.js";
import { ZoomButtons, useZoom } from "./zoom.js";
import { model, pickStep, pickVisit, seq, step } from "./state.js";

export const NODE_WIDTH = 208;
export const NODE_HEIGHT = 54;
export const ROW_GAP = 34;
const COLUMN_GAP = 18;
const NESTING = 44; // how far the steps inside a block of a plan with blocks are to the right
const FOLD_WIDTH = 36; // the room for the button that folds a block, behind the widest row
const LANE_WIDTH = 13;
export const MARGIN = 22;
const MIN_SCALE = 0.7;
const VALUE_ARROWS = ["data", "after"]; // the kinds of arrows that pass values

export function Dag() {
  const data = model.value;
  const box = useRef(null);
  const [view, setView] = useState([0, 900, 1200]);
  const read = () =>
    box.current &&
    setView((old) => {
      const top = Math.floor(box.current.scrollTop / 100) * 100;
      const { clientHeight: room, clientWidth: across } = box.current;
      return old[0] === top && old[1] === room && old[2] === across ? old : [top, room, across];
    });
  useLayoutEffect(() => {
    read();
    const watcher = new ResizeObserver(read);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const chosen = step.value;
  const folds = useFolds(data.plans);
  let top = 0;
  const tops = folds.layouts.map((layout, number) => {
    const at = top + (number ? 40 : 0);
    top = at + MARGIN * 2 + layout.rows * (NODE_HEIGHT + ROW_GAP);
    return at;
  });
  const width = Math.max(...folds.layouts.map(layoutWidth));
  const zoom = useZoom(box, Math.max(MIN_SCALE, Math.min(1, (view[2] - 12) / width)), width, top);
  const { scale } = zoom;
  useLayoutEffect(() => {
    if (!chosen || !box.current) return;
    const place = folds.layouts[chosen.plan].places[chosen.step];
    if (!place) return folds.show(chosen.plan, chosen.step);
    let y = tops[chosen.plan] + MARGIN + place[0] * (NODE_HEIGHT + ROW_GAP);
    const el = box.current;
    y *= scale;
    if (y < el.scrollTop || y + NODE_HEIGHT + 30 > el.scrollTop + el.clientHeight)
      el.scrollTop = Math.max(0, y - el.clientHeight / 2 + NODE_HEIGHT);
  }, [chosen && chosen.plan, chosen && chosen.step, data]);
  return html`<div class="graph-frame"><${ZoomButtons} zoom=${zoom} />
    <div class="dag" ref=${box} onScroll=${read} tabindex="0" role="group" aria-label="The plan as a graph" ...${zoom.on}>
    <svg width=${width * scale} height=${(top + 10) * scale} viewBox=${`0 0 ${width} ${top + 10}`} role="group"
        aria-label="Steps and dependencies">
      ${data.plans.map(
        (_, number) => html`<${Graph} key=${number} plan=${number} top=${tops[number]} folds=${folds}
        from=${view[0] / scale - tops[number] - 300} to=${(view[0] + view[1]) / scale - tops[number] + 300} />`,
      )}
    </svg>
  </div></div>`;
}

const leftEdge = (layout) => MARGIN + layout.left * LANE_WIDTH;
export const layoutWidth = (layout) =>
  leftEdge(layout) +
  (layout.is_nested
    ? NODE_WIDTH + COLUMN_GAP + FOLD_WIDTH + (layout.columns - 1) * NESTING
    : layout.columns * (NODE_WIDTH + COLUMN_GAP)) +
  (layout.right ? 8 + layout.right * LANE_WIDTH : 0) +
  MARGIN;

// The position of each step that has a place; rows with fewer steps are centred.
export function positions(layout) {
  const counts = new Array(layout.rows).fill(0);
  for (const [row, column] of layout.places.filter(Boolean)) counts[row] = Math.max(counts[row], column + 1);
  return {
    x: (n) => {
      const [row, column] = layout.places[n];
      if (layout.is_nested) return leftEdge(layout) + column * NESTING;
      return leftEdge(layout) + (column + (layout.columns - counts[row]) / 2) * (NODE_WIDTH + COLUMN_GAP);
    },
    y: (n) => MARGIN + layout.places[n][0] * (NODE_HEIGHT + ROW_GAP),
  };
}

function Graph({ plan: number, top, from, to, folds }) {
  const data = model.value;
  const plan = data.plans[number];
  const layout = folds.layouts[number];
  const chosen = step.value && step.value.plan === number ? step.value.step : -1;
  const { x, y } = useMemo(() => positions(layout), [layout]);
  const seen = (n) => layout.places[n] && y(n) + NODE_HEIGHT >= from && y(n) <= to;
  const states = plan.steps.map((_, n) => data.stepState(number, n, seq.value));
  const arrows = [];
  const marks = [];
  layout.arrows.forEach(([start, end, kind, lane], n) => {
    const upper = Math.min(y(start), y(end));
    const lower = Math.max(y(start), y(end)) + NODE_HEIGHT;
    if (lower < from || upper > to) return;
    const isHighlighted = start === chosen || end === chosen;
    const isSkipped = states[end] === "skipped" || states[start] === "skipped";
    const wasTaken = states[start] === "ok" && states[end] !== "pending";
    const classes = ["arrow", kind, isHighlighted && "lit", isSkipped && "left", wasTaken && "gone"];
    arrows.push({
      n,
      isHighlighted,
      html: html`<path key=${n} class=${classes.filter(Boolean).join(" ")}
        d=${arrowPath(layout, x, y, start, end, kind, lane)}
        marker-end=${`url(#tip${isHighlighted ? "-lit" : ""})`} />`,
    });
    const lost = VALUE_ARROWS.includes(kind) && data.lost(number, start, end, seq.value);
    if (lost) marks.push(html`<${LostValue} key=${n} at=${arrowMiddle(layout, x, y, start, end, lane)} of=${lost}
      way=${`${plan.steps[start].id} to ${plan.steps[end].id}`} />`);
  });
  arrows.sort((a, b) => a.isHighlighted - b.isHighlighted);
  return html`<g transform=${`translate(0 ${top})`}>
    <defs>
      ${["", "-lit"].map((name) => html`<marker id=${`tip${name}`} class=${`tip${name}`} viewBox="0 0 8 8"
          refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0.6 L8 4 L0 7.4 z" /></marker>`)}
    </defs>
    ${number ? html`<text class="replan" x=${MARGIN} y="4">RE-PLAN: new plan from event ${plan.seq}</text>` : ""}
    <${Groups} steps=${plan.steps} x=${x} y=${y} />
    ${arrows.map((arrow) => arrow.html)}
    ${plan.steps.map((row, n) => (seen(n) ? html`<${Node} key=${n} row=${row} plan=${number} n=${n} x=${x(n)}
        y=${y(n)} state=${states[n]} isChosen=${n === chosen} />` : ""))}
    ${plan.steps.map((row, n) => seen(n) && folds.inside(number, n) ? html`<${Fold} key=${n} x=${x(n) + NODE_WIDTH + 6}
        y=${y(n) + NODE_HEIGHT / 2} count=${folds.inside(number, n)} name=${row.id} isFolded=${folds.isClosed(number, n)}
        onFold=${() => folds.fold(number, n)} />` : "")}
    ${marks}
  </g>`;
}

// The path of an arrow: straight to the next row, or down a lane and through the gap above its end.
export function arrowPath(layout, x, y, start, end, kind, lane) {
  const half = NODE_WIDTH / 2;
  if (!lane) return straightPath(x(start) + half, y(start) + NODE_HEIGHT, x(end) + half, y(end) - 1);
  if (kind === "goto" || kind === "fail") return jumpPath(layout, x, y, start, end, lane);
  const side = leftEdge(layout) - lane * LANE_WIDTH;
  const [a, b] = [y(start) + NODE_HEIGHT + 9, y(end) - 11];
  const out = x(start) + 22;
  const into = x(end) + 22;
  return [
    `M${out} ${y(start) + NODE_HEIGHT} V${a - 6} Q${out} ${a} ${out - 6} ${a}`,
    `H${side + 6} Q${side} ${a} ${side} ${a + 6}`,
    `V${b - 6} Q${side} ${b} ${side + 6} ${b}`,
    `H${into - 5} Q${into} ${b} ${into} ${b + 5} V${y(end) - 1}`,
  ].join(" ");
}

function straightPath(from, a, into, b) {
  if (from === into) return `M${from} ${a} L${into} ${b}`;
  const half = (a + b) / 2;
  return `M${from} ${a} C${from} ${half} ${into} ${half} ${into} ${b}`;
}

// The path of a jump, which starts and ends at the right side of a step.
function jumpPath(layout, x, y, start, end, lane) {
  const [upper, lower] = [start, end].map((n) => layout.places[n][0]).sort((one, other) => one - other);
  const beside = layout.places.reduce(
    (most, [row], n) => (row >= upper && row <= lower ? Math.max(most, x(n)) : most),
    0,
  );
  const side = beside + NODE_WIDTH + 8 + lane * LANE_WIDTH;
  const [a, b] = [y(start) + NODE_HEIGHT - 14, y(end) + 14];
  const turn = b > a ? 7 : -7;
  return [
    `M${x(start) + NODE_WIDTH} ${a} H${side - 7} Q${side} ${a} ${side} ${a + turn}`,
    `V${b - turn} Q${side} ${b} ${side - 7} ${b}`,
    `H${x(end) + NODE_WIDTH + 1}`,
  ].join(" ");
}

function arrowMiddle(layout, x, y, start, end, lane) {
  const half = (y(start) + NODE_HEIGHT + y(end)) / 2;
  return lane ? [leftEdge(layout) - lane * LANE_WIDTH, half] : [(x(start) + x(end) + NODE_WIDTH) / 2, half];
}

// A mark on an arrow: a value was not passed along it, or its confidence is too low to hand it on.
function LostValue({ at: [x, y], of, way: between }) {
  const text =
    of.why === "lost"
      ? `${model.value.variable(of.name)} was not passed from ${between}`
      : `${model.value.variable(of.name)} was passed from ${between}, but its confidence of ${of.value.toFixed(2)} is too low to hand it on`;
  return html`<g class="lost is-${of.why}" transform=${`translate(${x} ${y})`} role="img" aria-label=${text}>
    <circle r="8" />
    <text y="4" text-anchor="middle">${of.why === "lost" ? "✗" : "⊘"}</text>
    <title>${text}</title>
  </g>`;
}

export function Groups({ steps, x, y }) {
  const found = new Map();
  steps.forEach((row, n) => {
    if (row.group < 0) return;
    const box = found.get(row.group) || [Infinity, Infinity, 0, 0];
    found.set(row.group, [
      Math.min(box[0], x(n)),
      Math.min(box[1], y(n)),
      Math.max(box[2], x(n) + NODE_WIDTH),
      Math.max(box[3], y(n) + NODE_HEIGHT),
    ]);
  });
  return [...found].map(
    ([group, [a, b, c, d]]) => html`<g key=${group} class="group">
    <rect x=${a - 8} y=${b - 8} width=${c - a + 16} height=${d - b + 16} rx="10" />
    <text x=${c + 4} y=${d + 20} text-anchor="end">parallel</text></g>`,
  );
}

export const truncated = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function Node({ row, plan, n, x, y, state, isChosen }) {
  const data = model.value;
  const visit = data.visitAt(plan, n, seq.value);
  const fact =
    visit && visit.write >= 0 && data.writes[visit.write].seq <= seq.value ? data.factAt.get(visit.write) : null;
  const spent = visit && state !== "pending" ? data.spent(visit) : null;
  const blame = data.doc.blame;
  const isCause =
    blame &&
    blame.suspects.length &&
    blame.suspects[0].write >= 0 &&
    data.writes[blame.suspects[0].write].visit === (visit ? visit.n : -2);
  const visits = data.visitsOf[plan][n].filter((each) => each.seq <= seq.value).length;
  const items = row.foreach && visit ? data.itemsOf(visit).length : 0;
  const badges = [
    visits > 1 ? `×${visits}` : "",
    spent && spent.retries ? `↻${spent.retries}` : "",
    items ? `${items} item${items === 1 ? "" : "s"}` : row.foreach ? "each" : "",
  ]
    .filter(Boolean)
    .join("  ");
  const [shape, word] = STATUS[state];
  const id = truncated(row.id, 9);
  const tool = truncated(row.title || row.tool, Math.max(6, 21 - Math.min(row.id.length, 9)));
  const out = truncated(row.output || (row.guard ? `if ${row.guard}` : row.title ? row.tool : word), 17);
  const confidence = fact ? fact.value.toFixed(2).replace(/^0/, "") : "";
  // what is read begins with what is seen, so that people who speak to the page can name it; there are blanks between
  // the texts below for the same reason
  const seen = [id, tool, out, confidence, badges, isCause ? "likely cause" : ""].filter(Boolean).join(" ");
  const name = `${seen}, ${row.tool}, ${word}`;
  const pick = () => pickStep(plan, n);
  const follow = () => visit && pickVisit(visit.n, true);
  const onKey = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (isChosen) follow();
    else pick();
  };
  return html`<g class="node is-${state} ${isChosen ? "chosen" : ""} ${isCause ? "cause" : ""}"
      transform=${`translate(${x} ${y})`}
      role="button" tabindex="0" aria-label=${name} aria-pressed=${isChosen} onClick=${pick} onKeyDown=${onKey}
      onDblClick=${follow}>
    ${row.foreach ? html`<rect class="behind" x="5" y="5" width=${NODE_WIDTH} height=${NODE_HEIGHT} rx="8" />` : ""}
    <rect class="card" width=${NODE_WIDTH} height=${NODE_HEIGHT} rx="8" />
    <rect class="edge" width="5" height=${NODE_HEIGHT - 16} x="0" y="8" rx="2.5" />
    <text class="shape" x="21" y="23" text-anchor="middle" aria-hidden="true">${shape}</text>${" "}
    <text class="id" x="34" y="23">${id}</text>${" "}
    <text class="tool" x=${34 + 8.2 * Math.min(row.id.length, 9) + 6}
        y="23">${tool}</text>${" "}
    <text class="out" x="34" y="42">${out}</text>${" "}
    <text class="badge" x=${NODE_WIDTH - 10} y="42" text-anchor="end">${fact ? html`
      <tspan class="is-${band(fact.value)}">${confidence}</tspan> ` : ""}${badges ? html`
        <tspan dx=${fact ? 6 : 0}>${badges}</tspan>` : ""}</text>${" "}
    ${isCause ? html`<text class="mark" x=${NODE_WIDTH - 8} y="-5" text-anchor="end">likely cause</text>` : ""}
    <title>${row.action}${row.guard ? `\nif ${row.guard}` : ""}${row.on_fail ? `\nON_FAIL ${row.on_fail}` : ""}</title>
  </g>`;
}
