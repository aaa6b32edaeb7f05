// What is under way in a run that goes on: loops with their rate, calls with what their tools report.
import { duration, html } from "./ui.js";
import { callOf, pace, paceText, reportText, shareOf } from "./loops.js";
import { plain } from "./model.js";
import { beat, isLive, model, pickVisit, reports, seq } from "./state.js";

const MOST = 4; // the number of steps that are shown

// The steps under way, loops before the steps in them: { visit, count, pace, report }.
function stepsUnderWay(data) {
  const found = new Map();
  for (const visit of data.visits) {
    if (visit.end || visit.outcome !== "open") continue;
    const key = `${visit.plan}/${visit.step}`;
    const known = found.get(key);
    if (known) known.count += 1;
    else found.set(key, { visit, count: 1, pace: pace(data, visit), report: null });
  }
  for (const report of reports.value) {
    const call = callOf(data, report.key);
    const visit = call && data.visits[call.visit];
    const row = visit && found.get(`${visit.plan}/${visit.step}`);
    if (row && !row.report) [row.report, row.visit] = [report, visit];
  }
  return [...found.values()];
}

export function UnderWay() {
  const data = model.value;
  beat.value; // rates and times go on with the clock
  if (!isLive.value || data.run.status !== "running" || seq.value < data.last) return "";
  const rows = stepsUnderWay(data);
  if (!rows.length) return "";
  return html`<section class="panel" aria-label="Under way"><ul class="under-way">
    ${rows.slice(0, MOST).map((row) => html`<${Row} key=${`${row.visit.plan}/${row.visit.step}`} ...${row} />`)}
    ${rows.length > MOST ? html`<li class="quiet">and ${rows.length - MOST} more steps</li>` : ""}
  </ul></section>`;
}

function Row({ visit, count, pace: loop, report }) {
  const data = model.value;
  beat.value; // its time goes on with the clock
  const step = data.step(visit);
  const share = loop && loop.total ? loop.done / loop.total : report ? shareOf(report) : null;
  const took = duration(data.duration - visit.start);
  const said = [loop && paceText(loop), report && plain(reportText(report))].filter(Boolean).join(" · ");
  return html`<li>
    <button class="link" onClick=${() => pickVisit(visit.n)}>${step.id}</button>
    <span class="tool">${step.title || step.tool}</span>
    ${count > 1 ? html`<span class="quiet">${count} at once, the first for ${took}</span>` : html`<span class="quiet">${took}</span>`}
    ${share === null ? "" : html`<${Bar} share=${share} />`}
    <span class="said">${said}</span>
  </li>`;
}

// How much of something is done, beside words that say it.
export function Bar({ share }) {
  return html`<span class="share" aria-hidden="true"><span style=${{ width: `${Math.min(1, share) * 100}%` }}></span></span>`;
}

// What the tool of a call reports: how far it is, and its last messages.
export function CallReport({ callKey }) {
  const report = reports.value.find((each) => each.key === callKey);
  if (!report) return "";
  const share = shareOf(report);
  return html`<div class="report">
    <p>${share === null ? "" : html`<${Bar} share=${share} /> `}${plain(reportText(report))}</p>
    ${report.lines.length > 1 ? html`<pre class="remark" tabindex="0" role="region"
      aria-label="Messages of the tool">${plain(report.lines.join("\n"))}</pre>` : ""}
  </div>`;
}
