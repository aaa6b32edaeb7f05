// The timeline of the run: visits with their calls, waiting times, the critical path.
import { useMemo, useState } from "preact/hooks";
import { Status, VirtualList, duration, html } from "./ui.js";
import { beat, model, pickVisit, seq, visit as chosenVisit } from "./state.js";

const MOST_BARS = 60;
const LEGEND = [
  ["", "running"],
  ["model", "model"],
  ["wait", "waiting"],
  ["ask", "waiting for a person"],
  ["early", "before its turn"],
  ["failed", "failed"],
  ["lost", "no answer yet, or never"],
  ["way", "critical path"],
];

export function Waterfall() {
  const data = model.value;
  beat.value; // open bars grow
  const [zoom, setZoom] = useState(null);
  const [open, setOpen] = useState(new Set());
  const [unfolded, setUnfolded] = useState(new Set());
  const nesting = useMemo(() => nestingOf(data), [data]);
  const rows = useMemo(() => {
    const found = [];
    for (const visit of data.visits) {
      if (visit.outcome === "skipped" && data.visits.length > 2000) continue;
      const inside = nesting.get(visit.n);
      if (inside && inside.around.some((each) => isFolded(data, each, unfolded))) continue;
      found.push({ visit, inside, isFolded: isFolded(data, visit.label, unfolded) });
      if (!open.has(visit.n)) continue;
      const [first, count] = visit.calls;
      for (let n = first; n < first + count; n++) found.push({ visit, call: data.calls[n] });
    }
    return found;
  }, [data, open, unfolded, nesting]);
  const [start, end] = zoom || [0, data.duration];
  const x = (t) => `${(((t - start) / (end - start)) * 100).toFixed(4)}%`;
  const now = data.timeAt(seq.value);
  const chosen = chosenVisit.value;
  const follow = chosen ? rows.findIndex((row) => row.visit === chosen) : -1;
  const toggle = (n) =>
    setOpen((old) => {
      const next = new Set(old);
      if (!next.delete(n)) next.add(n);
      return next;
    });
  const toggleFold = (label) =>
    setUnfolded((old) => {
      const next = new Set(old);
      if (!next.delete(label)) next.add(label);
      return next;
    });
  const toggleZoom = () => {
    if (zoom || !chosen) return setZoom(null);
    const room = Math.max(chosen.until - chosen.start, data.duration / 1000) * 0.15;
    return setZoom([Math.max(0, chosen.start - room), Math.min(data.duration, chosen.until + room)]);
  };
  return html`<div class="waterfall">
    <div class="axis">
      <div class="legend">
        ${LEGEND.map(([name, text]) => html`<span key=${name} class="key ${name}">${text}</span>`)}
        <button class="plain" onClick=${toggleZoom}>${zoom ? "all" : "zoom to step"}</button>
      </div>
      <div class="ticks" aria-hidden="true">${ticks(start, end).map((t) => html`<span key=${t}
          style=${{ left: x(t) }}>${duration(t)}</span>`)}</div>
    </div>
    <${VirtualList} label="Timeline of visits" class="bars" count=${rows.length} height=${30} follow=${follow}
      row=${(n) => html`<${Row} key=${`${rows[n].visit.n}/${rows[n].call ? rows[n].call.key : ""}`} ...${rows[n]}
          x=${x} now=${now} start=${start} end=${end} isOpen=${open.has(rows[n].visit.n)} toggle=${toggle}
          fold=${toggleFold} />`} />
  </div>`;
}

const FOLDED_FROM = 100; // with more visits, those of items, rounds and sub-plans are folded

// How deep each visit of a plan with blocks is inside others, and which those are; only for such visits.
function nestingOf(data) {
  const found = new Map();
  const of = (visit) => {
    if (found.has(visit.n)) return found.get(visit.n);
    const label = data.around(visit);
    const outer = label ? of(data.labels.get(label)) : null;
    const own = { around: label ? [...(outer ? outer.around : []), label] : [], inner: 0 };
    found.set(visit.n, own);
    if (outer) outer.inner += 1;
    return own;
  };
  if (data.visits.some((visit) => visit.label)) data.visits.forEach(of);
  return found;
}

// The label of a visit below that of the one that it is inside of: `[4]/S5` below `S2`.
function nameIn(data, visit, inside) {
  const label = data.label(visit);
  const outer = inside && inside.around[inside.around.length - 1];
  return outer ? label.slice(outer.length).replace(/^\//, "") : label;
}

const isFolded = (data, label, unfolded) => (data.visits.length > FOLDED_FROM) !== unfolded.has(label);

function ticks(start, end) {
  const rough = (end - start) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let t = Math.ceil(start / unit) * unit; t <= end + unit / 1000; t += unit)
    found.push(Number(t.toPrecision(12)));
  return found;
}

function Row({ visit, call, x, now, start, end, isOpen, toggle, inside, isFolded: folded, fold }) {
  const data = model.value;
  const row = data.step(visit);
  const isChosen = chosenVisit.value === visit;
  const state = data.stateOf(visit, seq.value);
  const bars = call ? [bar(data, visit, call, row)] : barsOf(data, visit, row);
  const many = visit.calls[1] > 1;
  const until = call ? call.until : visit.until;
  const from = call ? call.start : visit.start;
  const label = call ? named(call, row) : row.title || row.tool;
  const kinds = call ? ["call"] : [isChosen && "chosen", visit.critical && "critical"];
  const place = (each) => {
    const [from_, to] = [Math.max(each.start, start), Math.min(each.until, end)];
    return { left: x(from_), width: `max(2px, ${(((to - from_) / (end - start)) * 100).toFixed(4)}%)` };
  };
  const indent = inside ? { paddingLeft: `${Math.min(inside.around.length, 8) * 14}px` } : {};
  return html`<div role="listitem" class=${["visit", ...kinds].filter(Boolean).join(" ")}>
    <span class="name" style=${indent}>
      ${many && !call ? html`<button class="fold" tabindex=${-1} aria-expanded=${isOpen}
          aria-label=${`Calls of ${data.label(visit)}`}
          onClick=${() => toggle(visit.n)}>${isOpen ? "▾" : "▸"}</button>` : inside && inside.inner && !call ? html`<button
          class="fold" tabindex=${-1} aria-expanded=${!folded} aria-label=${`What is inside ${data.label(visit)}`}
          onClick=${() => fold(visit.label)}>${folded ? "▸" : "▾"}</button>` : html`<span class="fold"></span>`}
      <button class="pick" tabindex=${-1} aria-current=${isChosen && !call ? "true" : undefined}
        onClick=${() => pickVisit(visit.n)}>
        ${call ? "" : html`<${Status} of=${state} words=${false} /> <b>${nameIn(data, visit, inside)}</b> `}
          <span class="tool">${label}</span>
      </button>
    </span>
    <span class="lane" aria-hidden="true">
      <span class="now" style=${{ left: x(now) }}></span>
      ${bars
        .filter((each) => each.until >= start && each.start <= end)
        .map(
          (each, n) => html`
            <span key=${n} class="bar ${each.kind}" title=${each.title} style=${place(each)}></span>`,
        )}
    </span>
    <span class="took">${visit.outcome === "skipped" ? "skipped" : duration(until - from)}</span>
  </div>`;
}

function bar(data, visit, call, row) {
  const kind =
    row.kind === "model" || row.kind === "agent" || call.model
      ? "model"
      : call.tool === "wait"
        ? "wait"
        : call.tool === "ask"
          ? "ask"
          : "run";
  const failed = call.outcome === "err" ? " failed" : call.answered || !call.left ? "" : " lost";
  return {
    start: call.start,
    until: call.until,
    kind: kind + failed,
    title: `${model.value.tool(call.tool)} ${call.key}: ${duration(call.until - call.start)}${failed}`,
  };
}

function barsOf(data, visit, row) {
  const [first, count] = visit.calls;
  const bars = [];
  if (count && visit.start < visit.turn)
    bars.push({
      start: visit.start,
      until: Math.min(visit.turn, visit.until),
      kind: "early",
      title: "before its turn",
    });
  const calls = data.calls.slice(first, first + count).filter((call) => call.left);
  if (calls.length <= MOST_BARS) {
    let last = visit.start;
    for (const call of calls) {
      if (call.start > last + 0.0005)
        bars.push({ start: last, until: call.start, kind: "wait", title: `waiting ${duration(call.start - last)}` });
      bars.push(bar(data, visit, call, row));
      last = Math.max(last, call.until);
    }
    if (visit.until > last + 0.0005) bars.push({ start: last, until: visit.until, kind: "wait", title: "waiting" });
    return bars;
  }
  const spans = [];
  for (const call of calls.sort((a, b) => a.start - b.start)) {
    const lastSpan = spans[spans.length - 1];
    if (lastSpan && call.start <= lastSpan.until + data.duration / 2000)
      lastSpan.until = Math.max(lastSpan.until, call.until);
    else
      spans.push({
        start: call.start,
        until: call.until,
        kind: bar(data, visit, call, row).kind.split(" ")[0],
        title: `${count} calls`,
      });
  }
  return [...bars, ...spans];
}

// The label of a call among those of its visit.
function named(call, row) {
  const parts = [
    model.value.tool(call.tool),
    row.foreach ? `[${call.item}]` : "",
    call.attempt > 1 ? `attempt ${call.attempt}` : "",
    call.turn ? `turn ${call.turn}` : "",
  ];
  return parts.filter(Boolean).join(" ");
}
