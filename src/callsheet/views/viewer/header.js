// The head of the page: the outcome of the run, its likely cause, its totals, and actions.
import { useEffect, useState } from "preact/hooks";
import { Dialog, Moment, Status, copy, counted, download, duration, html } from "./ui.js";
import { ErrorMessage, useAction, useSeen } from "./actions.js";
import { decompressed } from "./compressed.js";
import { plain } from "./model.js";
import { CopyValue, useValue } from "./value.js";
import { actions, beat, isHelpOpen, isLive, link, lower, model, nextTheme, pickVisit, pickWrite, theme } from "./state.js";

const SHAPES = {
  done: "ok",
  done_with_failures: "partial",
  failed: "failed",
  refused: "failed",
  cancelled: "stopped",
  waiting: "open",
  in_doubt: "open",
  interrupted: "stopped",
  paused: "stopped",
  running: "open",
  corrupt: "failed",
};

const ACTIVE = ["queued", "running", "waiting", "in_doubt"];

export function Header() {
  const data = model.value;
  beat.value; // the duration of a run that goes on grows
  const { run, doc } = data;
  const usage = doc.usage;
  const tokens = usage.input_tokens + usage.output_tokens;
  const retries = usage.retries ? counted(usage.retries, "retry", "retries") : "";
  const isActive = isLive.value && ACTIVE.includes(run.status);
  return html`<section class="head" aria-label="Outcome">
    <div class="verdict is-${SHAPES[run.outcome] || "open"}">
      <h1><${Status} of=${SHAPES[run.outcome] || "open"} words=${false} />
        <span class="words">${run.words}</span><${Cause} /></h1>
      <p class="what"><b>${run.goal || run.name}</b> <code>${run.id}</code>${" "}
        <${Moment} at=${run.created} />${
        run.parent ? html` · from run <code>${run.parent}</code>` : ""
      }</p>
    </div>
    <dl class="sums">
      <div><dt>duration</dt><dd>${duration(data.seconds)}</dd></div>
      <div><dt>calls</dt>
        <dd>${usage.calls.toLocaleString("en")}${retries && html` <small>${retries}</small>`}</dd></div>
      ${usage.model_calls ? html`<div><dt>model calls</dt>
        <dd>${usage.model_calls.toLocaleString("en")}</dd></div>` : ""}
      ${tokens ? html`<div><dt>tokens</dt>
        <dd>${usage.input_tokens.toLocaleString("en")} / ${usage.output_tokens.toLocaleString("en")}</dd></div>` : ""}
      ${usage.cost ? html`<div><dt>cost</dt><dd>${usage.cost.toPrecision(3)}</dd></div>` : ""}
      <div><dt>chain</dt><dd><${Chain} run=${run} /></dd></div>
    </dl>
    <div class="acts">
      ${isActive ? html`<span class="live"><span aria-hidden="true">◉</span> live</span>` : ""}
      <${Actions} />
      <${Again} />
      <${Export} />
      <button class="plain" onClick=${nextTheme} title="Theme: light, dark or that of the system (t)">${
        { auto: "◐ auto", light: "○ light", dark: "● dark" }[theme.value]
      }</button>
      <button class="plain" onClick=${() => (isHelpOpen.value = true)} title="Help (?)">? help</button>
    </div>
    <${Outcome} run=${run} />
  </section>`;
}

const LONGEST_LINE = 240; // the characters of an answer that are shown at first, and its lines
const MOST_LINES = 2;

// What the run was given and what it ended with: its error, and its answer or the message with which the plan ended it.
function Outcome({ run }) {
  const parts = [
    ["error", run.error],
    [run.terminated ? "message" : "answer", run.response],
  ].filter(([, value], n, all) => value >= 0 && (n === 0 || value !== all[0][1]));
  const given = model.value.writes.filter((write) => write.made === "input");
  if (!parts.length && !given.length) return "";
  return html`<dl class="outcome">
    ${parts.map(([name, value]) => html`<${Said} key=${name} name=${name} value=${value} />`)}
    ${given.length ? html`<${Inputs} given=${given} />` : ""}
  </dl>`;
}

const MOST_INPUTS = 6;

// What the run was given; each shows its value and who read it.
function Inputs({ given }) {
  const more = given.length - MOST_INPUTS;
  return html`<div class="said">
    <dt>inputs</dt>
    <dd class="inputs-given">${given.slice(0, MOST_INPUTS).map((write) => html`
      <button key=${write.n} class="link" onClick=${() => pickWrite(write)}>${model.value.variable(write.name)}</button>${" "}
      <code>${model.value.preview(write.value, 60)}</code>${" "}`)}
      ${more > 0 ? html`<button class="link" onClick=${() => (lower.value = "facts")}>and ${more} more</button>` : ""}</dd>
  </div>`;
}

function Said({ name, value }) {
  const [isOpen, setOpen] = useState(false);
  const { text, parsed, kind, cut, load } = useValue(value);
  const [problem, isBusy, act] = useAction();
  const said = kind ? `omitted (${kind})` : plain(typeof parsed === "string" ? parsed : text);
  const isLong = said.length > LONGEST_LINE || said.trim().split("\n").length > MOST_LINES;
  const toggle = () =>
    act(async () => {
      if (!isOpen && cut && load) await load();
      setOpen(!isOpen);
    });
  return html`<div class=${`said is-${name}`}>
    <dt>${name}</dt>
    <dd class=${isOpen ? "is-open" : ""} tabindex=${isOpen ? 0 : undefined}>${said}</dd>
    <dd class="value-acts">
      ${isLong ? html`<button class="plain" disabled=${isBusy} aria-expanded=${isOpen}
          onClick=${toggle}>${isOpen ? "Show less" : "Show all"}</button>` : ""}
      ${kind ? "" : html`<${CopyValue} value=${value} asText=${true} />`}
      <${ErrorMessage} text=${problem} />
    </dd>
  </div>`;
}

// Actions on the whole run, if a server offers them.
function Actions() {
  const [problem, isBusy, act] = useAction();
  const { status } = model.value.run;
  const isOver = ["done", "failed", "refused", "cancelled", "corrupt"].includes(status);
  const isUndoable = useUndoable(isOver);
  const isAnswered = status === "waiting" && model.value.doc.asks.some((ask) => ask.answered);
  const canGoOn = status === "interrupted" || status === "paused" || isAnswered;
  const [refusal, setRefusal] = useState(null); // what undoing takes, until somebody agrees to it
  if (!actions.value) return "";
  const undo = (body) => async () => setRefusal(await actions.value.undo(body));
  const button = (name, action) => html`
    <button class="plain" disabled=${isBusy} onClick=${() => act(action)}>${name}</button>`;
  return html`<${ErrorMessage} text=${problem} />
    ${canGoOn ? button("Resume", actions.value.resume) : ""}
    ${isUndoable ? button("Undo", undo({})) : ""}
    ${isOver || status === "paused" ? "" : button("Pause", actions.value.pause)}
    ${isOver ? "" : button("Cancel", actions.value.cancel)}
    ${refusal ? html`<${Undo} refusal=${refusal} isBusy=${isBusy}
      onAgree=${() => act(undo({ consent: refusal.consent }))} onLeave=${() => setRefusal(null)} />` : ""}`;
}

// Whether there is something to take back of a run; the server is asked once the run is over.
function useUndoable(isOver) {
  const [isUndoable, setUndoable] = useState(false);
  const ask = isOver && actions.value && actions.value.isUndoable;
  useEffect(() => {
    if (!ask || startOf(model.value).launch?.undoes) return undefined; // the undoing of a run is not undone
    let isShown = true;
    ask().then((found) => isShown && setUndoable(found));
    return () => (isShown = false);
  }, [ask]);
  return isUndoable;
}

// What the first event says; nothing if it is too long for the page.
const startOf = (data) => (data.events.length && data.events[0].more >= 0 && data.parsed(data.events[0].more)) || {};

// Another run like this one.
function Again() {
  const [problem, isBusy, act] = useAction();
  if (!actions.value || !actions.value.again) return "";
  const item = (text, action) => html`<button disabled=${isBusy} onClick=${(event) => {
    event.currentTarget.closest("details").removeAttribute("open");
    act(action);
  }}>${text}</button>`;
  return html`<details class="menu">
    <summary>Run again</summary>
    <div>${item("With the same inputs: all calls are made anew", actions.value.again)}
      ${item("With changes …", actions.value.change)}</div>
  </details><${ErrorMessage} text=${problem} />`;
}

// What undoing the run takes: what cannot be undone is named first.
function Undo({ refusal, isBusy, onAgree, onLeave }) {
  const box = useSeen(refusal);
  return html`<div class="notice consent" role="group" aria-label="Undo" tabindex="-1" ref=${box}>
    <pre tabindex="0" aria-label="What undoing takes">${refusal.undo.text.join("\n")}</pre>
    <p class="consent-acts"><button class="plain strong" disabled=${isBusy} onClick=${onAgree}>Undo these calls</button>
      <button class="plain" disabled=${isBusy} onClick=${onLeave}>Do not</button></p>
  </div>`;
}

function Cause() {
  const data = model.value;
  const { blame } = data.doc;
  if (!blame || !blame.suspects.length || data.run.outcome === "done") return "";
  const first = blame.suspects[0];
  const write = first.write >= 0 ? data.writes[first.write] : null;
  const by = write && write.visit >= 0 ? data.visits[write.visit] : null;
  const go = () => (write ? pickWrite(write, first.path) : by && pickVisit(by.n));
  return html` <span class="cause">likely cause <button class="link" onClick=${go}>${
    by ? data.label(by) : data.place(first.name, first.path)
  }</button></span>`;
}

function Chain({ run }) {
  if (run.chain.ok)
    return html`<span class="chain" title=${`The hash of the last event: ${run.head}`}>
      <span aria-hidden="true">✓</span> intact <code>${run.head.slice(0, 8)}</code></span>`;
  return html`<span class="chain is-broken" title=${run.chain.why}>
    <span aria-hidden="true">✗</span> broken at event ${run.chain.seq}</span>`;
}

function Export() {
  const data = model.value;
  const { id } = data.run;
  const { shortened } = data.notes;
  const close = (event) => event.currentTarget.closest("details").removeAttribute("open");
  const item = (text, act) =>
    html`<button onClick=${(event) => {
      close(event);
      act();
    }}>${text}</button>`;
  return html`<details class="menu">
    <summary>Export</summary>
    <div>
      ${item("Copy a link to this view", () => copy(location.href.split("#")[0] + link(), () => {}))}
      ${data.doc.lctl.text ? item("LCTL document", () => download(`${id}.lctl.yaml`, data.doc.lctl.text)) : ""}
      ${actions.value
        ? html`<a href=${actions.value.journal} download=${`${id}.events.jsonl`}>Events as JSON lines</a>`
        : item(`Events as JSON lines${shortened ? `, ${counted(shortened, "value")} shortened` : ""}`, () =>
            download(`${id}.events.jsonl`, eventLines(data), "application/x-ndjson"),
          )}
      ${item("Spans as OTLP", () => save(data, "packed", "otlp.jsonl", "application/x-ndjson"))}
      ${item("Provenance as PROV-JSON", () => save(data, "prov", "prov.json", "application/json"))}
      ${actions.value ? html`<a href=${actions.value.report} download=${`${id}.html`}>Report, one HTML file</a>` : ""}
      ${item("All data as JSON", () => download(`${id}.report.json`, JSON.stringify(data.doc), "application/json"))}
    </div>
  </details>`;
}

// Downloads spans or provenance; if the page has none, shows the tab OTel, which names the command.
async function save(data, part, name, type) {
  try {
    const otel = actions.value ? await actions.value.spans() : data.doc.otel;
    if (otel[part]) return download(`${data.run.id}.${name}`, await decompressed(otel[part]), type);
  } catch {
    // the tab shows the error
  }
  lower.value = "otel";
}

function eventLines(data) {
  const bodyOf = (n) => (n < 0 ? undefined : data.parsed(n) === undefined ? data.value(n).text : data.doc.values[n]);
  return (
    data.events
      .map((event) =>
        JSON.stringify({
          seq: event.seq,
          t: event.t,
          type: event.type,
          key: event.key,
          step: event.step,
          epoch: event.epoch,
          hash: event.hash,
          value: bodyOf(event.value),
          more: bodyOf(event.more),
        }),
      )
      .join("\n") + "\n"
  );
}

const KEYS = [
  ["j k", "next, previous step"],
  ["Tab Enter", "focus a step of the graph, select it; again: go to its end"],
  ["↑ ↓ Enter", "in a list or the parts of a value: move, select"],
  ["h l", "previous, next event"],
  ["H L", "ten events back, forward"],
  ["g G", "first, last event"],
  ["space", "playback"],
  ["1 2 3 4", "graph, waterfall, log, plan"],
  ["+ - 0", "in the graph: larger, smaller, all of it"],
  ["← → ↑ ↓ Enter", "on the bar between two panels: move it, fold a panel away"],
  ["f w c i", "facts, lineage, confidence, findings"],
  ["d", "differences from the other run"],
  ["/", "search"],
  ["n N", "next, previous hit"],
  ["y", "copy a link to this view"],
  ["t", "light, dark, auto"],
  ["?", "this help"],
];

export function Help() {
  if (!isHelpOpen.value) return "";
  return html`<${Dialog} title="Help" onClose=${() => (isHelpOpen.value = false)}>
    <dl class="keys">${KEYS.map(([key, text]) => html`
      <div key=${key}><dt>${key.split(" ").map((k) => html`<kbd>${k}</kbd> `)}</dt><dd>${text}</dd></div>`)}</dl>
    <h3>Terms</h3>
    <p><b>Playback</b> steps through the journal; nothing is executed. A <b>rerun from a step</b> executes that step and
    the later ones again; the results of earlier steps come from the journal. A <b>fork</b> is a new run with a change,
    whose parent is this run. For both, see <b>Rerun or fork</b> of a step.</p>
    <h3>Confidence</h3>
    <p>The numbers are set by kind of source, as a policy, and are not measured. The confidence of a value is at most
    that of its sources. Below .70 a fact is flagged, below .60 a person should review it, below .40 it is not
    handed on.</p>
    <p class="quiet">${model.value.run.made_by}</p>
  <//>`;
}
