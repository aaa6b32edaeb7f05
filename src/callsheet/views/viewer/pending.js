// What the run waits for: answers of people, and decisions about calls in doubt.
import { useEffect, useState } from "preact/hooks";
import { CopyButton, Moment, counted, html, shellWord } from "./ui.js";
import { ValueBox } from "./value.js";
import { ErrorMessage, into, typed, useAction } from "./actions.js";
import { actions, model } from "./state.js";

export function Pending() {
  const data = model.value;
  const { asks, doubts } = data.doc;
  const first = usePrograms(asks)[0];
  const covered = new Set(first ? first.program.calls.filter((call) => !call.alone).map((call) => call.key) : []);
  const question = (ask) => html`<${Question} key=${`${ask.key} ${ask.digest}`} ask=${ask}
    program=${first && ask.digest === first.digest ? first.program : null} />`;
  return html`<div class="waits pad">
    ${asks.filter((ask) => !covered.has(ask.key)).map(question)}
    ${asks.filter((ask) => covered.has(ask.key)).map(
      (ask) => html`<details key=${ask.digest}><summary>${asksFor(ask)} <code>${ask.key}</code>, shown above with +</summary>
        ${question(ask)}</details>`,
    )}
    ${doubts.map((call) => html`<${Doubt} key=${call.key} call=${call} />`)}
    ${asks.length + doubts.length ? "" : html`<p class="quiet">The run is not waiting for anyone.</p>`}
  </div>`;
}

// The open questions of a served run beside which further calls of the plan are known, the first one first.
function usePrograms(asks) {
  const [programs, setPrograms] = useState([]);
  const open = asks.filter((ask) => ask.kind === "approval" && !ask.answered).map((ask) => ask.digest);
  useEffect(() => {
    let isGone = false;
    if (!actions.value || !open.length) return setPrograms([]);
    const take = (found) => !isGone && setPrograms(found.filter((ask) => open.includes(ask.digest)));
    actions.value.programs().then(take, () => take([])); // without it each call is answered by itself
    return () => {
      isGone = true;
    };
  }, [open.join()]);
  return programs;
}

// The further calls of the plan that will ask, and one answer for those that are marked +.
function Program({ ask, program }) {
  const [problem, isBusy, act] = useAction();
  const covered = program.calls.filter((call) => !call.alone).length;
  const count = program.calls.length + program.more;
  const approve = () => act(() => actions.value.approve({ key: ask.key, digest: ask.digest, program: program.hash }));
  return html`<div class="program">
    <p>After it, this plan makes ${counted(count, "further call that asks", "further calls that ask")}:</p>
    <ul>${program.calls.map((call, n) => html`<${FurtherCall} key=${call.key || call.step} call=${call}
      lines=${isAtPlaceOf(call, n ? program.calls[n - 1] : ask) ? [] : linesOf(call)} />`)}</ul>
    ${program.more ? html`<p class="quiet">and ${program.more} more, which ask by themselves</p>` : ""}
    <p><button type="button" class="plain strong" disabled=${isBusy} onClick=${approve}>
      Approve this call and the ${covered} marked + as they are shown, each once</button></p>
    <${ErrorMessage} text=${problem} />
  </div>`;
}

const linesOf = ({ site, lines }) => (site ? site.lines.map((each) => [each.line, each.text]) : lines) || [];
const isAtPlaceOf = (one, other) => `${linesOf(one)}` === `${linesOf(other)}`;

function FurtherCall({ call, lines }) {
  const given = [
    ...Object.entries(call.args).map(([name, value]) => [name, JSON.stringify(value)]),
    ...Object.entries(call.unknown),
  ];
  return html`<li>
    <b>${call.alone ? "?" : "+"}</b> ${call.site ? call.site.tool : `@${call.tool}`} <code>${call.key || call.step}</code>${call.sure ? "" : ", if it comes to that"}
    ${given.map(([name, text]) => html`<p key=${name}>${name} = <code>${text}</code></p>`)}
    <${Site} lines=${lines} />
    ${[...call.letters, ...call.why.map((why) => `reason: ${why}`)].map((line) => html`<p key=${line}>${line}</p>`)}
    ${call.alone ? html`<p>asks by itself: ${call.alone}</p>` : ""}
  </li>`;
}

// Why an open visit does not continue after the last event: empty while its calls are under way.
export function reasonOfStop(data, visit, seq) {
  if (!visit || seq < data.last || data.stateOf(visit, seq) !== "open") return "";
  const [first, count] = visit.calls;
  const isAmong = (rows) => {
    const keys = new Set(rows.map((row) => row.key));
    return keys.size > 0 && data.calls.slice(first, first + count).some((call) => keys.has(call.key));
  };
  if (isAmong(data.doc.asks)) return "waits for a person";
  if (isAmong(data.doc.doubts)) return "in doubt";
  return ["interrupted", "paused"].includes(data.run.status) ? data.run.status : "";
}

const timeText = (data, t) => html`<${Moment} at=${data.run.created + t} />`;

function Command({ text }) {
  return html`<p><code>${text}</code> <${CopyButton} text=${text} /></p>`;
}

// Whether the page has the whole of a value.
function isWhole(data, number) {
  const { cut, kind } = data.value(number);
  return !cut && !kind;
}

const asksFor = (ask) =>
  ask.result >= 0 ? `May the result of ${ask.written} be used?` : `May ${ask.written} be called with exactly this?`;

// Where a call stands in the text of its plan: numbered lines, the conditions around it first.
export function Site({ lines }) {
  return lines.length === 0 ? "" : html`<p class="quiet">by these lines of the plan:</p>
    <pre class="site" tabindex="0" role="region" aria-label="The call in the plan">${lines
      .map(([number, text]) => `${String(number || "").padStart(4)}  ${text}`)
      .join("\n")}</pre>`;
}

function Question({ ask, program }) {
  const data = model.value;
  const isApproval = ask.kind === "approval";
  const isShown = [ask.text, ask.given, ask.result].every((n) => isWhole(data, n));
  const mayAnswer = actions.value && (!ask.role || actions.value.holds(ask.role));
  const until = ask.until === null ? "" : html`, until ${timeText(data, ask.until)}`;
  return html`<section>
    <h3>${isApproval ? asksFor(ask) : "A question"} <code>${ask.key}</code></h3>
    <p class="quiet">asked ${timeText(data, ask.since)}${until}</p>
    ${ask.text >= 0 ? html`<p>${data.textOf(ask.text)}</p>` : ""}
    ${ask.result >= 0 ? html`<${ValueBox} value=${ask.result} label="result" whole=${true} />` : ""}
    ${ask.given >= 0 ? html`<${ValueBox} value=${ask.given} label="arguments" whole=${true} />` : ""}
    <${Site} lines=${ask.lines.map(([number, text]) => [number, data.textOf(text)])} />
    ${ask.labels.map((line) => html`<p key=${line}>${data.textOf(line)}</p>`)}
    ${ask.why.map((reason) => html`<p key=${reason}>reason: ${data.textOf(reason)}</p>`)}
    ${ask.answered ? html`<p><b>Answered.</b> <span class="quiet">The run has not continued yet.</span></p>` : ""}
    ${ask.role && !ask.answered ? html`<p>Only somebody with the role <b>${ask.role}</b> may answer${
      mayAnswer ? "" : ", at a server that knows its people"}.</p>` : ""}
    ${!ask.answered && mayAnswer ? html`<${Answer} ask=${ask} isApproval=${isApproval} isShown=${isShown} />` : ""}
    ${program && mayAnswer && isShown && !ask.answered ? html`<${Program} ask=${ask} program=${program} />` : ""}
    ${isShown || !actions.value ? "" : html`<p>It is too long to be shown here as a whole.</p>`}
    ${(actions.value && isShown) || ask.role ? "" : html`<${Command} text=${`callsheet approve ${data.run.id} ${shellWord(ask.key)}`} />`}
  </section>`;
}

function Answer({ ask, isApproval, isShown }) {
  const data = model.value;
  const [problem, isBusy, act] = useAction();
  const [text, setText] = useState("");
  const [note, setNote] = useState("");
  const answer = (body) => act(() => actions.value.approve({ key: ask.key, digest: ask.digest, note: note.trim(), ...body }));
  const isFree = !isApproval && !ask.options.length;
  const send = (event) => {
    event.preventDefault();
    answer({ answer: typed(text) });
  };
  return html`<form class="answer" onSubmit=${send}>
    ${isApproval && isShown ? html`
      <button type="button" class="plain strong" disabled=${isBusy} onClick=${() => answer({})}>Approve</button>` : ""}
    ${ask.options.map(
      (option) => html`<button type="button" class="plain strong" key=${option} disabled=${isBusy}
        onClick=${() => answer({ answer: data.parsed(option) })}>${data.textOf(option)}</button>`,
    )}
    ${isFree ? html`<label>Answer <input value=${text} onInput=${into(setText)} /></label>
      <button class="plain strong" disabled=${isBusy}>Send</button>` : ""}
    <button type="button" class="plain" disabled=${isBusy}
      onClick=${() => answer({ deny: true })}>${isApproval ? "Deny" : "Decline to answer"}</button>
    <label>Comment <input value=${note} placeholder="kept in the journal" onInput=${into(setNote)} /></label>
    <${ErrorMessage} text=${problem} />
  </form>`;
}

const VERDICTS = [
  ["retry", "Retry", "it did not take place, or may take place twice"],
  ["skip", "Skip", "continue without its result"],
  ["fail", "Mark as failed", "continue with its ON_FAIL"],
];

function Doubt({ call }) {
  const data = model.value;
  const command = `callsheet decide ${data.run.id} ${shellWord(call.key)}`;
  return html`<section>
    <h3>${data.run.sigil ? call.written : data.tool(call.tool)} may have taken place <code>${call.key}</code></h3>
    <p class="quiet">sent ${timeText(data, call.since)}; ${data.textOf(call.text)}</p>
    ${call.given >= 0 ? html`<${ValueBox} value=${call.given} label="arguments" />` : ""}
    ${actions.value ? html`<${Verdict} call=${call} />` : html`<${Command} text=${command} />`}
  </section>`;
}

function Verdict({ call }) {
  const [problem, isBusy, act] = useAction();
  const [text, setText] = useState("");
  const decide = (body) => act(() => actions.value.decide({ calls: [call.key], ...body }));
  const send = (event) => {
    event.preventDefault();
    decide({ decision: "value", value: typed(text) });
  };
  return html`<form class="answer" onSubmit=${send}>
    ${VERDICTS.map(
      ([decision, label, meaning]) => html`<button type="button" class="plain" key=${decision} title=${meaning}
        disabled=${isBusy} onClick=${() => decide({ decision })}>${label}</button>`,
    )}
    <label>It took place with the result <input value=${text} onInput=${into(setText)} /></label>
    <button class="plain" disabled=${isBusy}>Use this result</button>
    <${ErrorMessage} text=${problem} />
  </form>`;
}
