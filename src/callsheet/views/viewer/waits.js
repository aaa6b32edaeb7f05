// What the run waits for: people's answers, and decisions about calls that may have taken place.
import { CopyButton, clock, day, html } from "./ui.js";
import { ValueBox } from "./value.js";
import { model } from "./state.js";

export function Waits() {
  const made = model.value;
  const { asks, doubts } = made.doc;
  return html`<div class="waits pad">
    ${asks.map(
      (
        ask,
      ) => html`
        <section key=${ask.key}><h3>${ask.kind === "approval" ? `May @${ask.tool} be called?` : "A question"} <code>${ask.key}</code></h3>
      <p class="quiet">asked ${when(made, ask.since)}${ask.until !== null ? `, until ${when(made, ask.until)}` : ""}</p>
      ${ask.text >= 0 ? html`<p>${made.words(ask.text)}</p>` : ""}
      ${ask.given >= 0 ? html`<${ValueBox} value=${ask.given} label="arguments" />` : ""}
      <${Command} text=${`callsheet approve ${made.run.id} ${ask.key}`} /></section>`,
    )}
    ${doubts.map(
      (call) => html`<section key=${call.key}><h3>@${call.tool} may have taken place <code>${call.key}</code></h3>
      <p class="quiet">left ${when(made, call.since)}; ${made.words(call.text)}</p>
      ${call.given >= 0 ? html`<${ValueBox} value=${call.given} label="arguments" />` : ""}
      <${Command} text=${`callsheet decide ${made.run.id} ${call.key}`} /></section>`,
    )}
    ${asks.length + doubts.length ? "" : html`<p class="quiet">The run waits for nobody.</p>`}
  </div>`;
}

const when = (made, t) => `${day(made.run.created + t)} ${clock(made.run.created + t).slice(0, 8)}`;

function Command({ text }) {
  return html`<p><code>${text}</code> <${CopyButton} text=${text} /></p>`;
}
