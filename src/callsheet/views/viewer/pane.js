// The selected step: its inputs and output, its calls, and who used its result.
import { useEffect, useState } from "preact/hooks";
import { Confidence, CopyButton, Status, Tabs, VirtualList, counted, argument, duration, html } from "./ui.js";
import { ValueBox } from "./value.js";
import { Spread } from "./spread.js";
import { CallReport } from "./underway.js";
import { Branching } from "./branching.js";
import { reasonOfStop } from "./pending.js";
import { origin, plain } from "./model.js";
import {
  beat,
  goTo,
  lower,
  model,
  pickedCall,
  pickVariable,
  pickVisit,
  pickWrite,
  seq,
  step,
  variable,
  visit as shown,
} from "./state.js";

const MOST_VISITS = 12;
const ROLES = { condition: "if", source: "each of" };

// How long a visit has taken, or takes so far if it is under way at the end of the journal.
function Took({ visit, isOver }) {
  beat.value; // it grows while the visit is under way
  if (!isOver && seq.value < model.value.last) return "";
  return html`<span class="quiet">${duration(visit.until - visit.start)}</span>`;
}

export function Pane() {
  const data = model.value;
  const at = step.value;
  if (!at) return html`<aside class="pane panel" aria-label="Step"><p class="quiet">Select a step.</p></aside>`;
  const row = data.plans[at.plan].steps[at.step];
  const chosen = shown.value;
  const state = chosen ? data.stateOf(chosen, seq.value) : "pending";
  const visit = state === "pending" ? null : chosen; // later outcomes are not shown
  const isOver = visit && state !== "open";
  return html`<aside class="pane panel" aria-label=${`Step ${row.id}`}>
    <header>
      <h2>${row.id} <span class="tool">${row.tool}</span></h2>
      <${Status} of=${state} said=${reasonOfStop(data, chosen, seq.value)} />
      ${visit ? html`<${Took} visit=${visit} isOver=${isOver} />` : ""}
    </header>
    ${row.title ? html`<p class="title">${row.title}</p>` : ""}
    <p class="action"><code>${row.action}</code></p>
    <${Visits} plan=${at.plan} place=${at.step} visit=${chosen} />
    ${visit ? html`<${Spread} key=${`${at.plan}/${at.step}`} plan=${at.plan} place=${at.step} visit=${visit} />` : ""}
    ${isOver && visit.detail >= 0 ? html`<p class="why is-${visit.outcome}">${data.textOf(visit.detail)}</p>` : ""}
    ${isOver ? html`<${Blame} visit=${visit} />` : ""}
    <dl class="about">
      ${row.guard ? html`<div><dt>if</dt>
        <dd><code>${row.guard}</code>${state === "skipped" ? " does not hold" : ""}</dd></div>` : ""}
      ${row.foreach ? html`<div><dt>for each</dt><dd><code>${row.foreach}</code></dd></div>` : ""}
      ${row.on_fail ? html`<div><dt>on fail</dt><dd><code>${row.on_fail}</code></dd></div>` : ""}
      <div><dt>in</dt><dd><${Inputs} row=${row} visit=${visit} /></dd></div>
      <div><dt>out</dt><dd><${Output} row=${row} visit=${visit} isOver=${isOver} /></dd></div>
      ${isOver && visit.write >= 0 ? html`<div><dt>used by</dt><dd><${Users} visit=${visit} /></dd></div>` : ""}
      ${chosen ? html`<div><dt>journal</dt><dd><button class="link"
          onClick=${() => goTo(chosen.seq)}>event ${chosen.seq}</button>${chosen.end > chosen.seq ? html` to${" "}
            <button class="link" onClick=${() => goTo(chosen.end)}>${chosen.end}</button>` : ""} · <button class="link"
          onClick=${() => showFactsAt(chosen)}>facts at that time</button></dd></div>` : ""}
    </dl>
    ${chosen ? html`<${Branching} at=${seq.value} label=${data.label(chosen)} />` : ""}
    ${visit && visit.calls[1] ? html`<${Calls} key=${visit.n} visit=${visit} />` : ""}
  </aside>`;
}

// Shows the facts at the beginning of the visit.
function showFactsAt(visit) {
  goTo(visit.seq);
  lower.value = "facts";
}

function Visits({ plan, place, visit }) {
  const data = model.value;
  const all = data.visitsOf[plan][place];
  if (all.length < 2) return "";
  const at = all.indexOf(visit);
  const first = Math.max(0, Math.min(at - MOST_VISITS / 2, all.length - MOST_VISITS));
  return html`<p class="visits"><span class="quiet">visit</span>
    ${first ? html`<button class="plain" onClick=${() => pickVisit(all[0].n, true)}>1</button><span>…</span>` : ""}
    ${all.slice(first, first + MOST_VISITS).map((each) => html`<button key=${each.n}
        class="plain ${each === visit ? "chosen" : ""}" aria-pressed=${each === visit}
        onClick=${() => pickVisit(each.n, true)}><${Status} of=${each.outcome} words=${false} />${each.label || each.nth}</button>`)}
    ${first + MOST_VISITS < all.length ? html`<span>…</span><button class="plain"
        onClick=${() => pickVisit(all[all.length - 1].n, true)}>${all.length}</button>` : ""}
  </p>`;
}

function Blame({ visit }) {
  const { blame } = model.value.doc;
  if (!visit || !blame || blame.visit !== visit.n || !blame.suspects.length) return "";
  const data = model.value;
  const reasons = {
    error: "an error was stored instead of a result",
    cast: "the value did not fit its cast",
    unset: "the value was missing",
    empty: "the value was empty",
  };
  return html`<section class="blame"><h3>Likely causes</h3><ol>
    ${blame.suspects.slice(0, 5).map(
      (each, n) =>
        html`<li key=${n}><button class="link"
            onClick=${() => each.write >= 0 && pickWrite(data.writes[each.write], each.path)}
          >${data.place(each.name, each.path)}</button>: ${reasons[each.odd]}${
          each.way.length > 1
            ? html` <span class="quiet">→ ${each.way
                .slice(1)
                .map(([name, path]) => data.place(name, path))
                .join(" → ")}</span>`
            : ""
        }</li>`,
    )}
  </ol>
    <p class="quiet">By heuristic order: errors, then values that did not fit their casts, then missing or
    empty values.</p></section>`;
}

function Source({ write }) {
  const data = model.value;
  if (write < 0) return html`<span class="quiet">not set</span>`;
  const from = data.writes[write];
  if (from.visit < 0) return html`<span class="quiet">${origin(from)}</span>`;
  return html`<button class="link"
      onClick=${() => pickVisit(from.visit)}>${data.label(data.visits[from.visit])}</button>`;
}

function Inputs({ row, visit }) {
  const data = model.value;
  const reads = visit
    ? data.reads(visit)
    : row.uses.map(([role, argument, name, path]) => ({
        role,
        argument,
        name,
        path: path.map((part) => (part === null ? "*" : part)),
        write: -1,
      }));
  if (!reads.length && !row.literals.length) return html`<span class="quiet">nothing</span>`;
  return html`<ul class="flows">
    ${reads.map((read, n) => {
      const fact = read.write >= 0 ? data.factAt.get(read.write) : null;
      return html`<li key=${n}>
        <span class="quiet">${ROLES[read.role] || argument(read.argument)}</span>
        <button class="link" onClick=${() =>
          read.write >= 0
            ? pickWrite(
                data.writes[read.write],
                read.path.filter((part) => part !== "*"),
              )
            : pickVariable(read.name)}>${data.place(read.name, read.path)}</button>
        ${fact ? html`<${Confidence} value=${fact.value} short=${true} />` : ""} ${visit ? html`←${" "}
          <${Source} write=${read.write} />` : ""}</li>`;
    })}
    ${row.literals.map(([name, value], n) => html`<li key=${`l${n}`}>
      <span class="quiet">${argument(name)}</span> <code>${data.preview(value, 60)}</code></li>`)}
  </ul>`;
}

function Output({ row, visit, isOver }) {
  const data = model.value;
  const write = visit && visit.write >= 0 ? data.writes[visit.write] : null;
  if (!write || write.seq > seq.value)
    return row.output
      ? html`<code>${row.output}</code> <span class="quiet">${write || !isOver ? "not yet" : "no value"}</span>`
      : html`<span class="quiet">nothing</span>`;
  const fact = data.factAt.get(write.n);
  const chosen = variable.value && variable.value.name === write.name ? variable.value.path : null;
  return html`<div><button class="link" onClick=${() => pickWrite(write)}>${data.variable(write.name)}</button>
    ${fact ? html` <span class="quiet">${fact.id}</span> <${Confidence} value=${fact.value} />${" "}
      <span class="quiet">${fact.basis}</span>` : ""}
    ${write.odd ? html` <span class="warn">does not fit its cast</span>` : ""}
    <${ValueBox} value=${write.value} onPick=${(path) => pickWrite(write, path)} path=${chosen} open=${1} /></div>`;
}

function Users({ visit }) {
  const data = model.value;
  const users = data.readers.get(visit.write) || [];
  if (!users.length) return html`<span class="quiet">no step</span>`;
  return html`${users.slice(0, 20).map((each) => html`<button key=${each.n} class="link"
      onClick=${() => pickVisit(each.n)}>${data.label(each)}</button> `)}${users.length > 20 ? html`
        <span class="quiet">and ${users.length - 20} more</span>` : ""}`;
}

function Calls({ visit }) {
  const data = model.value;
  const [first, count] = visit.calls;
  const [at, setAt] = useState(count - 1);
  const picked = pickedCall.value;
  useEffect(() => {
    if (picked && picked.visit === visit.n) setAt(picked.call);
  }, [picked]);
  const [tab, setTab] = useState("result");
  const call = data.calls[first + at];
  const answer = call.answered ? data.events[call.answered - 1] : null;
  const left = call.left ? data.events[call.left - 1] : null;
  const word = { ok: "ok", err: "failed", signal: "ok", plan: "ok", fired: "ok", decided: "ok" };
  return html`<section class="calls"><h3>${counted(count, "call")}</h3>
    ${
      count > 1
        ? html`<${VirtualList} label="Calls of this visit" class="call-list" count=${count} height=${28} follow=${at}
      row=${(n) => {
        const each = data.calls[first + n];
        const again = each.attempt > 1 && !each.turn ? `attempt ${each.attempt} · ` : "";
        return html`<div role="listitem" key=${n}><button class=${n === at ? "chosen" : ""} tabindex=${-1}
            aria-pressed=${n === at} onClick=${() => setAt(n)}>
          <${Status} of=${each.outcome ? word[each.outcome] || "open" : "open"} words=${false}
              /> <code>${each.key}</code>${" "}
                <span class="quiet">${again}${duration(each.until - each.start)}</span></button></div>`;
      }} />`
        : ""
    }
    <${Tabs} id="call" label="The call" current=${tab} onPick=${setTab} tabs=${[
      ["args", "Args"],
      ["result", "Result"],
      ...(call.asked || call.model ? [["prompt", "Prompt"]] : []),
      ["usage", "Usage"],
      ["raw", "Raw"],
    ]} />
    <div class="tab-body" id="call-panel" role="tabpanel" aria-labelledby="call-tab-${tab}" tabindex="0">
      ${tab === "args" ? (call.args >= 0 ? html`<${ValueBox} value=${call.args} label=${data.tool(call.tool)} />` : html`
        <p class="quiet">none</p>`) : ""}
      ${tab === "result" ? html`<${Result} left=${left} answer=${answer} callKey=${call.key} />` : ""}
      ${tab === "prompt" ? html`<${Prompt} call=${call} />` : ""}
      ${tab === "usage" ? html`<${Usage} call=${call} />` : ""}
      ${tab === "raw" ? html`<${Raw} left=${left} answer=${answer} />` : ""}
    </div>
  </section>`;
}

function Result({ left, answer, callKey }) {
  if (!answer) return html`<p class="quiet">${withoutAnswer(left)}</p><${CallReport} callKey=${callKey} />`;
  return html`<${Outcome} answer=${answer} /><${Remarks} answer=${answer} />`;
}

// The remarks on an outcome: where the tool's code raised, and what may be taken for something else.
function Remarks({ answer }) {
  const body = answer.more >= 0 ? model.value.parsed(answer.more) : null;
  const facts = (body && Array.isArray(body.remarks) ? body.remarks : []).filter(
    (each) => each.fact === "traceback" || each.fact === "result",
  );
  // the lines of a traceback do not wrap: its marks stand below what they mark
  return facts.map((each) => html`<h4>${each.fact}</h4>
    <pre class=${`remark ${each.fact}`} tabindex="0" role="region" aria-label=${each.fact}>${each.text}</pre>`);
}

function Outcome({ answer }) {
  if (answer.value >= 0) return html`<${ValueBox} value=${answer.value} label=${`event ${answer.seq}`} />`;
  return answer.more >= 0
    ? html`<${ValueBox} value=${answer.more} label=${`event ${answer.seq}, ${answer.type}`} />`
    : html`<p class="quiet">nothing</p>`;
}

function withoutAnswer(left) {
  if (!left) return "It was not sent.";
  if (left.type === "ask") return "Nobody has answered. The call was not sent.";
  return model.value.run.status === "running" ? "It was sent. There is no answer yet." : "It was sent and never answered.";
}

// The prompt of a model call: its messages, rebuilt from the journal.
function Prompt({ call }) {
  const data = model.value;
  const named = call.asked ? html`<code>${call.asked}</code>` : "a custom prompt";
  if (call.prompt < 0)
    return html`<p class="quiet">The model was asked with ${named}. Its text is not available: the instructions of an
      agent, and prompts of other versions or custom models, are not in the journal. The inputs are under Args.</p>`;
  const messages = data.parsed(call.prompt);
  if (!messages) return html`<${ValueBox} value=${call.prompt} label=${call.asked} />`;
  return html`<div class="prompt"><p class="quiet">${named}, rebuilt from the inputs in the journal</p>
    ${messages.map(
      ({ role, content }, n) => html`<div key=${n} class="value">
        <div class="value-head"><span class="quiet">${role}</span><${CopyButton} text=${content} /></div>
        <pre>${plain(content)}</pre></div>`,
    )}</div>`;
}

function Usage({ call }) {
  const rows = [
    ["took", duration(call.until - call.start)],
    ["attempt", call.attempt],
    ["item", call.item],
  ];
  if (call.turn) rows.push(["turn", call.turn]);
  if (call.model) rows.push(["model", duration(call.model)]);
  if (call.tokens_in || call.tokens_out) rows.push(["tokens", `${call.tokens_in} in, ${call.tokens_out} out`]);
  if (call.cost) rows.push(["cost", call.cost.toPrecision(3)]);
  return html`<dl class="about">${rows.map(([name, value]) => html`
    <div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function Raw({ left, answer }) {
  return html`${[left, answer].filter(Boolean).map(
    (event) => html`<div key=${event.seq} class="raw">
    <p><button class="link"
        onClick=${() => goTo(event.seq)}>event ${event.seq}</button> ${event.type} <code>${event.key}</code>${" "}
          <span class="quiet">+${event.t.toFixed(6)} s, epoch ${event.epoch}, hash ${event.hash}…</span></p>
    ${event.more >= 0 ? html`<${ValueBox} value=${event.more} label="body" />` : ""}
  </div>`,
  )}`;
}
