// The viewer of a run: all panels, with data from a source.
import { Tabs, counted, html } from "./ui.js";
import { Header, Help } from "./header.js";
import { Scrubber } from "./scrubber.js";
import { Steps } from "./steps.js";
import { Dag } from "./dag.js";
import { Waterfall } from "./waterfall.js";
import { Log } from "./log.js";
import { PlanText } from "./plan.js";
import { Pane } from "./pane.js";
import { Facts } from "./facts.js";
import { Lineage } from "./lineage.js";
import { ConfidenceTab } from "./confidence.js";
import { Findings } from "./findings.js";
import { Lctl } from "./lctl.js";
import { Otel } from "./otel.js";
import { Cost } from "./cost.js";
import { Diff } from "./diff.js";
import { Pending } from "./pending.js";
import { UnderWay } from "./underway.js";
import { Search } from "./search.js";
import { Splitter, usePanels } from "./panels.js";
import { FORMAT } from "./model.js";
import { failure, reset, isLive, lower, model, show, tab } from "./state.js";

const MAIN = { dag: Dag, waterfall: Waterfall, log: Log, plan: PlanText };
const BELOW = {
  facts: Facts,
  lineage: Lineage,
  confidence: ConfidenceTab,
  findings: Findings,
  lctl: Lctl,
  otel: Otel,
  cost: Cost,
  diff: Diff,
  waits: Pending,
};

// On a narrow page the questions stand far below.
function toPending() {
  lower.value = "waits";
  const tab = document.getElementById("below-tab-waits");
  tab.scrollIntoView();
  tab.focus({ preventScroll: true });
}

export function Viewer() {
  const panels = usePanels();
  if (failure.value && !model.value)
    return html`<main class="nothing"><h1>No data</h1><p>${failure.value}</p></main>`;
  if (!model.value) return html`<main class="nothing"><p>Reading the journal…</p></main>`;
  const data = model.value;
  const waits = data.doc.asks.length + data.doc.doubts.length;
  const Main = MAIN[tab.value];
  const Below = BELOW[lower.value];
  const below = [
    ["facts", "Facts"],
    ["lineage", "Lineage"],
    ["confidence", "Confidence"],
    ["findings", html`Findings${data.findings.length ? html` <small>${data.findings.length}</small>` : ""}`],
    ["lctl", "LCTL"],
    ["otel", "OTel"],
    ["cost", "Cost"],
    ["diff", "Diff"],
    ...(waits ? [["waits", html`Pending <small>${waits}</small>`]] : []),
  ];
  return html`<div class=${`app ${panels.names}`} style=${panels.style}>
    <${Header} />
    <${Scrubber} />
    <div class="notices">
      ${data.notes.redacted ? html`
        <p class="notice">Values are omitted from this report; names, types and sizes are kept.</p>` : ""}
      ${failure.value ? html`<p class="notice" role="status">The data may be outdated: ${failure.value}</p>` : ""}
      ${data.run.chain.ok ? "" : html`<p class="notice is-broken" role="alert">
        The journal was modified: the hash chain is broken at event ${data.run.chain.seq}: ${data.run.chain.why}.</p>`}
      ${waits ? html`<p class="notice to-pending"><button class="link" onClick=${toPending}>${
        counted(waits, "question is", "questions are")} open</button></p>` : ""}
      <${UnderWay} />
    </div>
    <main class="middle">
      <${Steps} />
      <${Splitter} of="steps" label="the list of steps" side="left" panels=${panels} />
      <section class="center panel" aria-label="The run">
        <${Tabs} id="main" label="The run" current=${tab.value} onPick=${(name) => (tab.value = name)} tabs=${[
          ["dag", "Graph"],
          ["waterfall", "Waterfall"],
          ["log", "Log"],
          ["plan", "Plan"],
        ]} />
        <div class="tab-body" id="main-panel" role="tabpanel" aria-labelledby="main-tab-${tab.value}"><${Main} /></div>
      </section>
      <${Splitter} of="pane" label="the step" side="right" panels=${panels} />
      <${Pane} />
      <${Splitter} of="below" label="the details" side="below" panels=${panels} />
    </main>
    <section class="below panel" aria-label="Details">
      <div class="tab-line"><${Tabs} id="below" label="Details" current=${lower.value}
          onPick=${(name) => (lower.value = name)} tabs=${below} /><${Search} /></div>
      <div class="tab-body" id="below-panel" role="tabpanel" aria-labelledby="below-tab-${lower.value}">
        <${Below} /></div>
    </section>
    <${Help} />
  </div>`;
}

// Shows the data of a source; returns a function that closes it.
export function open(source) {
  reset();
  isLive.value = source.isLive;
  const close = source.open(
    (document_) => {
      if (document_.format !== FORMAT)
        failure.value = `the data has format ${document_.format}; this viewer supports format ${FORMAT}`;
      else {
        failure.value = "";
        show(document_);
      }
    },
    (why) => (failure.value = why),
  );
  return () => {
    if (close) close();
    reset();
  };
}
