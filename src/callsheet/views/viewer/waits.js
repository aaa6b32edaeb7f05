// What the run waits for: answers of people, and decisions about calls in doubt.
import { useState } from "preact/hooks";
import { CopyButton, clock, day, html } from "./ui.js";
import { ValueBox } from "./value.js";
import { Wrong, into, typed, useDoing } from "./doing.js";
import { acts, model } from "./state.js";

export function Waits() {
  const made = model.value;
  const { asks, doubts } = made.doc;
  return html`<div class="waits pad">
    ${asks.map((ask) => html`<${Asked} key=${`${ask.key} ${ask.digest}`} ask=${ask} />`)}
    ${doubts.map((call) => html`<${Doubt} key=${call.key} call=${call} />`)}
    ${asks.length + doubts.length ? "" : html`<p class="quiet">The run is not waiting for anyone.</p>`}
  </div>`;
}

const when = (made, t) => `${day(made.run.created + t)} ${clock(made.run.created + t).slice(0, 8)}`;

function Command({ text }) {
  return html`<p><code>${text}</code> <${CopyButton} text=${text} /></p>`;
}

// Whether the page has the whole of a value.
function isWhole(made, number) {
  const { cut, kind } = made.value(number);
  return !cut && !kind;
}

const asksFor = (ask) =>
  ask.result >= 0 ? `May the result of @${ask.tool} be used?` : `May @${ask.tool} be called with exactly this?`;

function Asked({ ask }) {
  const made = model.value;
  const isApproval = ask.kind === "approval";
  const isShown = [ask.text, ask.given, ask.result].every((n) => isWhole(made, n));
  const until = ask.until === null ? "" : `, until ${when(made, ask.until)}`;
  return html`<section>
    <h3>${isApproval ? asksFor(ask) : "A question"} <code>${ask.key}</code></h3>
    <p class="quiet">asked ${when(made, ask.since)}${until}</p>
    ${ask.text >= 0 ? html`<p>${made.words(ask.text)}</p>` : ""}
    ${ask.result >= 0 ? html`<${ValueBox} value=${ask.result} label="result" whole=${true} />` : ""}
    ${ask.given >= 0 ? html`<${ValueBox} value=${ask.given} label="arguments" whole=${true} />` : ""}
    ${ask.labels.map((line) => html`<p key=${line}>${made.words(line)}</p>`)}
    ${ask.why.map((reason) => html`<p key=${reason}>reason: ${made.words(reason)}</p>`)}
    ${ask.answered ? html`<p><b>Answered.</b> <span class="quiet">The run has not continued yet.</span></p>` : ""}
    ${!ask.answered && acts.value ? html`<${Answer} ask=${ask} isApproval=${isApproval} isShown=${isShown} />` : ""}
    ${isShown || !acts.value ? "" : html`<p>It is too long to be shown here as a whole.</p>`}
    ${acts.value && isShown ? "" : html`<${Command} text=${`callsheet approve ${made.run.id} ${ask.key}`} />`}
  </section>`;
}

function Answer({ ask, isApproval, isShown }) {
  const made = model.value;
  const [wrong, isBusy, act] = useDoing();
  const [text, setText] = useState("");
  const say = (body) => act(() => acts.value.approve({ key: ask.key, digest: ask.digest, ...body }));
  const isFree = !isApproval && !ask.options.length;
  const send = (event) => {
    event.preventDefault();
    say({ answer: typed(text) });
  };
  return html`<form class="answer" onSubmit=${send}>
    ${isApproval && isShown ? html`
      <button type="button" class="plain strong" disabled=${isBusy} onClick=${() => say({})}>Approve</button>` : ""}
    ${ask.options.map(
      (option) => html`<button type="button" class="plain strong" key=${option} disabled=${isBusy}
        onClick=${() => say({ answer: made.parsed(option) })}>${made.words(option)}</button>`,
    )}
    ${isFree ? html`<label>Answer <input value=${text} onInput=${into(setText)} /></label>
      <button class="plain strong" disabled=${isBusy}>Send</button>` : ""}
    <button type="button" class="plain" disabled=${isBusy}
      onClick=${() => say({ deny: true })}>${isApproval ? "Deny" : "Decline to answer"}</button>
    <${Wrong} said=${wrong} />
  </form>`;
}

const VERDICTS = [
  ["retry", "Retry", "it did not take place, or may take place twice"],
  ["skip", "Skip", "continue without its result"],
  ["fail", "Mark as failed", "continue with its ON_FAIL"],
];

function Doubt({ call }) {
  const made = model.value;
  const command = `callsheet decide ${made.run.id} ${call.key}`;
  return html`<section>
    <h3>@${call.tool} may have taken place <code>${call.key}</code></h3>
    <p class="quiet">sent ${when(made, call.since)}; ${made.words(call.text)}</p>
    ${call.given >= 0 ? html`<${ValueBox} value=${call.given} label="arguments" />` : ""}
    ${acts.value ? html`<${Verdict} call=${call} />` : html`<${Command} text=${command} />`}
  </section>`;
}

function Verdict({ call }) {
  const [wrong, isBusy, act] = useDoing();
  const [text, setText] = useState("");
  const say = (body) => act(() => acts.value.decide({ calls: [call.key], ...body }));
  const send = (event) => {
    event.preventDefault();
    say({ decision: "value", value: typed(text) });
  };
  return html`<form class="answer" onSubmit=${send}>
    ${VERDICTS.map(
      ([decision, label, meaning]) => html`<button type="button" class="plain" key=${decision} title=${meaning}
        disabled=${isBusy} onClick=${() => say({ decision })}>${label}</button>`,
    )}
    <label>It took place with the result <input value=${text} onInput=${into(setText)} /></label>
    <button class="plain" disabled=${isBusy}>Use this result</button>
    <${Wrong} said=${wrong} />
  </form>`;
}
