// The confidence of each fact: its own, and the effective one along the weakest path.
import { useMemo, useState } from "preact/hooks";
import { Confidence, VirtualList, band, counted, html } from "./ui.js";
import { model, pickWrite, seq } from "./state.js";

const MAX_PATH_LENGTH = 24;
const FILTERS = {
  all: "all",
  flagged: "flagged (below .70)",
  review: "review (.40 to .59)",
  blocked: "blocked (below .40)",
};

export function ConfidenceTab() {
  const data = model.value;
  const [only, setOnly] = useState("all");
  const rows = useMemo(() => {
    const tests = {
      all: () => true,
      flagged: (v) => v < 0.7,
      review: (v) => v >= 0.4 && v < 0.6,
      blocked: (v) => v < 0.4,
    };
    return data.facts.filter(
      (fact) => (fact.write < 0 || data.writes[fact.write].seq <= seq.value) && tests[only](fact.value),
    );
  }, [data, only, seq.value]);
  return html`<div class="confidence table">
    <div class="bar">
      <label>show <select value=${only}
          onChange=${(event) => setOnly(event.currentTarget.value)}>${Object.entries(FILTERS).map(([name, text]) => html`
            <option key=${name} value=${name}>${text}</option>`)}</select></label>
      <span class="quiet">${counted(rows.length, "fact")} · the numbers are set by kind of source, as a
        policy; they are not measured</span>
    </div>
    <div class="row head"
        aria-hidden="true"><span>fact</span>
          <span>variable</span>
          <span>own</span>
          <span>confidence</span>
          <span>weakest path</span>
          <span>basis</span></div>
    <${VirtualList} label="Facts" count=${rows.length} height=${34} row=${(n) => html`<${Row} key=${rows[n].id}
        fact=${rows[n]} />`} />
  </div>`;
}

// The weakest path to a fact, from its first source to the fact itself.
function weakestPath(data, fact) {
  const path = [fact];
  while (path.length < MAX_PATH_LENGTH && path[0].parents.length) {
    const parents = path[0].parents.map((id) => data.factOf.get(id)).filter(Boolean);
    if (!parents.length) break;
    path.unshift(parents.reduce((least, each) => (each.value < least.value ? each : least)));
  }
  return path;
}

function Row({ fact }) {
  const data = model.value;
  const write = fact.write >= 0 ? data.writes[fact.write] : null;
  const path = weakestPath(data, fact);
  const drop = path.find((each) => each.value === fact.value);
  return html`<div role="listitem" class="row">
    <span class="quiet">${fact.id}</span>
    <span>${write ? html`<button class="link" tabindex=${-1} onClick=${() => pickWrite(write)}>${model.value.variable(write.name)}</button>` : ""}</span>
    <span>${fact.own.toFixed(2)}</span>
    <span><${Confidence} value=${fact.value} /></span>
    <span class="way"><${Sparkline} points=${path.map((each) => each.value)} />
      <span class="quiet">${path.map((each) => each.id).join(" → ")}</span></span>
    <span class="said">${fact.basis}${drop && fact.value < fact.own ? html`${" "}
      <span class="quiet">lowered by ${drop.id}</span>` : ""}</span>
  </div>`;
}

function Sparkline({ points }) {
  const [wide, high] = [96, 24];
  const y = (value) => 4 + (1 - value) * (high - 8);
  const x = (n) => (points.length < 2 ? wide / 2 : 4 + (n / (points.length - 1)) * (wide - 8));
  const last = points[points.length - 1];
  return html`<svg class="spark" width=${wide} height=${high} role="img"
      aria-label=${points.map((each) => each.toFixed(2)).join(", then ")}>
    <line class="line-flag" x1="0" x2=${wide} y1=${y(0.7)} y2=${y(0.7)} /><line class="line-block" x1="0"
        x2=${wide} y1=${y(0.4)} y2=${y(0.4)} />
    <polyline points=${points.map((value, n) => `${x(n)},${y(value)}`).join(" ")} />
    <circle class="is-${band(last)}" cx=${x(points.length - 1)} cy=${y(last)} r="3" />
  </svg>`;
}
