// Results about a plan that is not run: its dry run, its proof, the labels of its data.
import { useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { preview } from "../../viewer/model.js";
import { ErrorMessage, useAction } from "../../viewer/actions.js";
import { request } from "./session.js";
import { Findings } from "./diagnostics.js";

const countWords = (count) => (count.least === 1 && count.most === 1 ? "once" : `${times(count)} times`);
const conditions = (step) => [step.when, countWords(step.total), step.effect].filter(Boolean).join(", ");
const times = ({ least, most }) => (least === most ? `${least}` : `${least} to ${most ?? "any number"}`);

export function DryRun({ result }) {
  if (!result) return html`<p class="quiet pad">“Dry run” predicts what each step would do. Nothing is called.</p>`;
  return html`<div class="pad">
    <p><b>${times(result.totals.calls)} calls</b>, ${times(result.totals.writes)} of them change something;
      ${" "}${times(result.totals.model_calls)} model calls</p>
    ${result.unforeseen.map((each) => html`<p class="quiet" key=${each}>not predicted: ${each}</p>`)}
    <ol class="step-list">${result.steps.map(
      (step) => html`<li key=${step.id}>
        <p><b>${step.id}</b> ${step.statement || step.action} <span class="quiet">${conditions(step)}</span>
          ${step.needs_approval ? html` <span class="warn">asks a person</span>` : ""}</p>
        ${step.why_not ? html`<p class="quiet">${step.why_not}</p>` : ""}
        ${step.result ? html`<p class="quiet">returns ${step.result.is} <code>${predictedText(step.result)}</code></p>` : ""}
      </li>`,
    )}</ol>
  </div>`;
}

// Returns a value of a dry run as text, with names for the unknown parts.
function predictedText(value) {
  if ("value" in value) return preview(value.value, 160);
  if (value.unknown) return value.unknown.name;
  if (value.text) return value.text.map((part) => (typeof part === "string" ? part : part.unknown.name)).join("");
  if (value.list) {
    const shown = value.list.slice(0, 5).map(predictedText);
    return `[${[...shown, ...(value.list.length > 5 ? ["…"] : [])].join(", ")}]`;
  }
  if (value.dict) {
    const shown = Object.entries(value.dict).map(([key, part]) => `${key}: ${predictedText(part)}`);
    return `{${shown.join(", ")}}`;
  }
  return "";
}

export function Proof({ result, text, box }) {
  if (!result) return html`<p class="quiet pad">“Verify” proves whether the plan may run under a policy.</p>`;
  return html`<div>
    <p class="pad">
      <b class=${`status is-${result.ok ? "ok" : "failed"}`}>${result.ok ? "✓ it may run" : "✗ it is refused"}</b>
      ${result.policy ? html` <span class="quiet">under ${result.policy.name || result.policy}</span>` : ""}</p>
    <${Findings} rows=${result.diagnostics || []} text=${text} box=${box} />
  </div>`;
}

// The labels of the data that each step reads and returns, under a policy.
export function DataLabels({ text, inputs, policy }) {
  const [rows, setRows] = useState(null);
  const [problem, isBusy, act] = useAction();
  const load = () =>
    act(async () => {
      const explanation = await request("/v1/explain-policy", { body: { plan: text, inputs, ...policy } });
      setRows(explanation.steps);
      if (!explanation.steps.length) throw new Error("the plan has errors, so it has no labels");
    });
  return html`<div class="pad">
    <button class="plain" disabled=${isBusy || !text.trim()} onClick=${load}>Show data labels</button>
    <${ErrorMessage} text=${problem} />
    ${rows && rows.length ? html`<${Labels} rows=${rows} />` : ""}
  </div>`;
}

const WORDS = { T: "trusted", U: "untrusted", pub: "public", priv: "private", secret: "secret" };

// A label such as U/priv as words: its integrity and its confidentiality.
function Label({ of }) {
  const words = of.split("/").map((part) => WORDS[part] || part);
  const isPlain = of === "T/pub";
  const style = isPlain ? "quiet" : of.startsWith("U") ? "warn" : "";
  return html`<span class=${style} title=${of}>${words.join(", ")}</span>`;
}

function Labels({ rows }) {
  return html`<ol class="step-list">${rows.map(
    (row) => html`<li key=${row.step}>
      <p><b>${row.step}</b> returns <${Label} of=${row.gives} />
        ${row.because.length ? html` <span class="quiet">because of ${row.because.join(", ")}</span>` : ""}</p>
      ${Object.entries(row.reads).map(
        ([name, label]) => html`<p key=${name}>reads <code>$${name}</code> <${Label} of=${label} /></p>`,
      )}
      ${row.decided_by === "T/pub" ? "" : html`<p>depends on a condition that is <${Label} of=${row.decided_by} /></p>`}
    </li>`,
  )}</ol>`;
}
