// The variables after an event: values, confidence, where each comes from and who used it.
import { Confidence, VirtualList, html } from "./ui.js";
import { origin } from "./model.js";
import { model, pickVisit, pickWrite, seq, variable } from "./state.js";

export function Facts() {
  const data = model.value;
  const rows = data.variablesAt(seq.value);
  const chosen = variable.value ? rows.findIndex((write) => write.name === variable.value.name) : -1;
  if (!rows.length) return html`<p class="quiet pad">No variable has been set yet.</p>`;
  return html`<div class="facts table">
    <div class="row head"
        aria-hidden="true"><span>fact</span>
          <span>variable</span>
          <span>value</span>
          <span>confidence</span>
          <span>from</span>
          <span>used by</span></div>
    <${VirtualList} label="Facts" count=${rows.length} height=${30} follow=${chosen}
        row=${(n) => html`<${Row} key=${rows[n].name} write=${rows[n]} isChosen=${n === chosen} />`} />
  </div>`;
}

function Row({ write, isChosen }) {
  const data = model.value;
  const fact = data.factAt.get(write.n);
  const by = write.visit >= 0 ? data.visits[write.visit] : null;
  const users = (data.readers.get(write.n) || []).filter((visit) => visit.seq <= seq.value);
  return html`<div role="listitem" class="row ${isChosen ? "chosen" : ""}">
    <span class="quiet">${fact ? fact.id : ""}</span>
    <span><button class="link" tabindex=${-1} aria-current=${isChosen ? "true" : undefined}
        onClick=${() => pickWrite(write)}>${data.variable(write.name)}</button></span>
    <span class="said"><code>${data.preview(write.value, 200)}</code></span>
    <span>${fact ? html`<${Confidence} value=${fact.value} />` : ""}</span>
    <span>${by ? html`<button class="link" tabindex=${-1}
        onClick=${() => pickVisit(by.n)}>${data.label(by)}</button>${write.made === "error" ? html`${" "}
          <span class="warn">its error</span>` : ""}` : html`
            <span class="quiet">${origin(write)}</span>`}</span>
    <span>${users.slice(0, 4).map((visit) => html`<button key=${visit.n} class="link" tabindex=${-1}
        onClick=${() => pickVisit(visit.n)}>${data.label(visit)}</button> `)}
      ${users.length > 4 ? `+${users.length - 4}` : ""}</span>
  </div>`;
}
