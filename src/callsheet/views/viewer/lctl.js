// The LCTL document of the run, at its end or after any step, and the states of its hand-offs.
import { useMemo } from "preact/hooks";
import { CopyButton, Source, bytes, download, html } from "./ui.js";
import { boundary, boundaryAt, documentAt } from "./handoff.js";
import { goTo, isAtEvent, model, pickVisit, seq } from "./state.js";

// The states of a hand-off: symbol, text and status class.
const STATES = {
  taken: ["✓", "accepted", "ok"],
  concerns: ["⚑", "accepted with concerns", "stopped"],
  refused: ["✗", "refused", "failed"],
  unsaid: ["○", "not acknowledged", "skipped"],
  waits: ["◔", "pending", "open"],
  given: ["→", "delivered", "ok"],
};
const KINDS = { agent: "to an agent", person: "to a person", process: "to the next process", end: "at the end" };

export function Lctl() {
  const data = model.value;
  if (!data.doc.lctl.text)
    return html`<p class="quiet pad">The document contains values and is omitted from this report.</p>`;
  return html`<div class="lctl"><${Hops} /><${Document} /></div>`;
}

function Document() {
  const data = model.value;
  const { text: whole, kind, steps } = data.doc.lctl;
  const place = steps && isAtEvent.value ? boundaryAt(steps, seq.value) : -1;
  const text = useMemo(() => (place < 0 ? whole : documentAt(steps, place)), [data, place, whole]);
  const at = place < 0 ? null : boundary(steps, place);
  const name = at ? `${data.run.id}.${at.label.replace("/", "-")}.lctl.yaml` : `${data.run.id}.lctl.yaml`;
  const what = at ? "Hand-off" : kind === "debug" ? "Post-mortem" : "Hand-off";
  return html`<section class="document" aria-label="Document">
    <div class="bar">
      <span>
        <b>${what}</b>${" "}
        <span class="quiet">${at ? `after ${at.label}, event ${at.seq} · ` : ""}LCTL 3.0, ${bytes(text.length)}</span>
      </span>
      <${DocumentPicker} steps=${steps} place=${place} />
      <span class="acts">
        <${CopyButton} text=${text} />
        <button class="plain" onClick=${() => download(name, text)}>Download</button>
      </span>
    </div>
    <${Source} label="Document" text=${text} />
  </section>`;
}

// The selection of the document: of the whole run, or after the step at the current event.
function DocumentPicker({ steps, place }) {
  const data = model.value;
  if (!steps)
    return html`<span class="quiet">after a step: <code>callsheet lctl emit ${data.run.id} --step STEP</code></span>`;
  const isBefore = isAtEvent.value && place < 0;
  const pick = (event) => {
    const { value } = event.currentTarget;
    isAtEvent.value = value !== "end";
    if (value !== "end" && value !== "now") goTo(steps.at[Number(value)][0]);
  };
  return html`<label class="moment">
    <span class="quiet">of</span>${" "}
    <select value=${isBefore ? "now" : isAtEvent.value ? String(place) : "end"} onChange=${pick}>
      <option value="end">the whole run</option>
      ${isBefore ? html`<option value="now">the current event: no step has finished</option>` : ""}
      ${steps.at.map(
        ([at, label], n) => html`<option key=${n} value=${String(n)}>after ${label} (event ${at})</option>`,
      )}
    </select>
  </label>`;
}

function Hops() {
  const data = model.value;
  const shown = data.hops.filter((hop) => hop.seq <= seq.value);
  return html`<section class="hops" aria-label="Hand-offs">
    <h3>Hand-offs</h3>
    ${shown.length ? html`<ol>${shown.map((hop) => html`<${Hop} key=${hop.n} hop=${hop} />`)}</ol>` : ""}
    ${shown.length ? "" : html`<p class="quiet">No hand-off up to event ${seq.value}.</p>`}
  </section>`;
}

function Hop({ hop }) {
  const data = model.value;
  const isOpen = hop.until && hop.until > seq.value; // later outcomes are not shown
  const [shape, word, style] = STATES[isOpen ? "waits" : hop.state];
  const isOver = hop.until > hop.seq && !isOpen;
  const go = () => (hop.visit >= 0 ? pickVisit(hop.visit, true) : goTo(hop.until || hop.seq));
  return html`<li>
    <span class="status is-${style}"><span class="shape" aria-hidden="true">${shape}</span> ${word}</span>
    <span class="who"><button class="link" onClick=${go}>${hop.source} → ${hop.target}</button></span>
    <span class="quiet">${KINDS[hop.kind]}, event ${hop.seq}${isOver ? ` to ${hop.until}` : ""}</span>
    ${hop.text >= 0 && !isOpen ? html`<span class="said">${data.textOf(hop.text)}</span>` : ""}
  </li>`;
}
