// What the server tells of a plan without running it: a dry run, a proof, whose data goes where.
import { useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { preview } from "../../viewer/model.js";
import { Wrong, useDoing } from "../../viewer/doing.js";
import { ask } from "./session.js";
import { Findings } from "./diagnostics.js";

const often = (count) => (count.least === 1 && count.most === 1 ? "once" : `${times(count)} times`);
const how = (step) => [step.when, often(step.total), step.effect].filter(Boolean).join(", ");
const times = ({ least, most }) => (least === most ? `${least}` : `${least} to ${most ?? "any number"}`);

export function Dry({ told }) {
  if (!told) return html`<p class="quiet pad">“Dry run” tells here what each step would do. Nothing is called.</p>`;
  return html`<div class="pad">
    <p><b>${times(told.totals.calls)} calls</b>, ${times(told.totals.writes)} of them change something;
      ${" "}${times(told.totals.model_calls)} model calls</p>
    ${told.unforeseen.map((each) => html`<p class="quiet" key=${each}>not foreseen: ${each}</p>`)}
    <ol class="steps-told">${told.steps.map(
      (step) => html`<li key=${step.id}>
        <p><b>${step.id}</b> ${step.action} <span class="quiet">${how(step)}</span>
          ${step.needs_approval ? html` <span class="warn">asks a person</span>` : ""}</p>
        ${step.why_not ? html`<p class="quiet">${step.why_not}</p>` : ""}
        ${step.result ? html`<p class="quiet">gives ${step.result.is} <code>${foreseen(step.result)}</code></p>` : ""}
      </li>`,
    )}</ol>
  </div>`;
}

// A value of a dry run: what is known, and names for what is not.
function foreseen(value) {
  if ("value" in value) return preview(value.value, 160);
  if (value.unknown) return value.unknown.name;
  if (value.text) return value.text.map((part) => (typeof part === "string" ? part : part.unknown.name)).join("");
  if (value.list) {
    const shown = value.list.slice(0, 5).map(foreseen);
    return `[${[...shown, ...(value.list.length > 5 ? ["…"] : [])].join(", ")}]`;
  }
  if (value.dict) {
    const shown = Object.entries(value.dict).map(([key, part]) => `${key}: ${foreseen(part)}`);
    return `{${shown.join(", ")}}`;
  }
  return "";
}

export function Proof({ told, text, box }) {
  if (!told) return html`<p class="quiet pad">“Verify” says here whether the plan may run under a policy, and why.</p>`;
  return html`<div>
    <p class="pad">
      <b class=${`status is-${told.ok ? "ok" : "failed"}`}>${told.ok ? "✓ it may run" : "✗ it is refused"}</b>
      ${told.policy ? html` <span class="quiet">under ${told.policy.name || told.policy}</span>` : ""}</p>
    <${Findings} rows=${told.diagnostics || []} text=${text} box=${box} />
  </div>`;
}

// Whose data each step takes and gives, under a policy.
export function Whose({ text, inputs, policy }) {
  const [rows, setRows] = useState(null);
  const [wrong, isBusy, act] = useDoing();
  const look = () =>
    act(async () => {
      const told = await ask("/v1/explain-policy", { body: { plan: text, inputs, ...policy } });
      setRows(told.steps);
      if (!told.steps.length) throw new Error("a plan that cannot be read has no data");
    });
  return html`<div class="pad">
    <button class="plain" disabled=${isBusy || !text.trim()} onClick=${look}>Whose data goes where</button>
    <${Wrong} said=${wrong} />
    ${rows && rows.length ? html`<${Labels} rows=${rows} />` : ""}
  </div>`;
}

const WORDS = { T: "trusted", U: "from outside", pub: "public", priv: "private", secret: "secret" };

// A label in words, such as U/priv: who may have written it, and who may read it.
function Label({ of }) {
  const said = of.split("/").map((part) => WORDS[part] || part);
  const isPlain = of === "T/pub";
  const look = isPlain ? "quiet" : of.startsWith("U") ? "warn" : "";
  return html`<span class=${look} title=${of}>${said.join(", ")}</span>`;
}

function Labels({ rows }) {
  return html`<ol class="steps-told">${rows.map(
    (row) => html`<li key=${row.step}>
      <p><b>${row.step}</b> gives <${Label} of=${row.gives} />
        ${row.because.length ? html` <span class="quiet">because of ${row.because.join(", ")}</span>` : ""}</p>
      ${Object.entries(row.reads).map(
        ([name, label]) => html`<p key=${name}>reads <code>$${name}</code> <${Label} of=${label} /></p>`,
      )}
      ${row.decided_by === "T/pub" ? "" : html`<p>is done as data decides that is <${Label} of=${row.decided_by} /></p>`}
    </li>`,
  )}</ol>`;
}
