// Findings of rules about the plan, the hand-off and the run, each with a link to its place.
import { LEVELS, VirtualList, counted, html } from "./ui.js";
import { goTo, model, pickStep, pickWrite } from "./state.js";

const SOURCES = { plan: "the plan", lctl: "hand-off", run: "the run" };

export function Findings() {
  const data = model.value;
  const rows = data.findings;
  if (!rows.length)
    return html`
      <p class="quiet pad">No findings in the plan, the hand-off or the run.</p>`;
  const levels = ["error", "warning", "hint"]
    .map((level) => [level, rows.filter((row) => row.level === level).length])
    .filter(([, n]) => n);
  return html`<div class="findings table">
    <div class="bar">${levels.map(([level, n]) => html`<span key=${level} class="level is-${level}">
      <span aria-hidden="true">${LEVELS[level][0]}</span> ${counted(n, level)}</span>`)}</div>
    <${VirtualList} label="Findings" count=${rows.length} height=${46} row=${(n) => html`<${Row} key=${n}
        row=${rows[n]} />`} />
  </div>`;
}

function Row({ row }) {
  const data = model.value;
  const fact = row.fact ? data.factOf.get(row.fact) : null;
  const write = fact && fact.write >= 0 ? data.writes[fact.write] : null;
  const go = () => {
    if (row.seq) goTo(row.seq);
    if (write) pickWrite(write);
    else if (row.step) {
      const at = data.plans[row.plan].steps.findIndex((each) => each.id === row.step);
      if (at >= 0) pickStep(row.plan, at);
    }
  };
  const place = row.step || row.fact || (row.seq ? `event ${row.seq}` : "");
  return html`<div role="listitem" class="finding">
    <span class="level is-${row.level}">
      <span aria-hidden="true">${LEVELS[row.level][0]}</span> ${LEVELS[row.level][1]}</span>
    <code>${row.code}</code>
    <span class="words"><span>${row.text}</span>
      <small class="quiet">${SOURCES[row.source]}${row.help ? `: ${row.help}` : ""}</small></span>
    ${place ? html`<button class="link" tabindex=${-1} onClick=${go}>${place}</button>` : ""}
  </div>`;
}
