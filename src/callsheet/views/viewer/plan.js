// The text of the plan, with the status of each step.
import { useMemo } from "preact/hooks";
import { CopyButton, STATUS, VirtualList, html } from "./ui.js";
import { plain } from "./model.js";
import { model, pickStep, seq, step } from "./state.js";

export function PlanText() {
  const data = model.value;
  const number = step.value ? step.value.plan : data.planAt(seq.value);
  const plan = data.plans[number];
  const lines = useMemo(() => plain(plan.source).replace(/\n$/, "").split("\n"), [plan]);
  const stepOf = useMemo(() => {
    const found = new Map();
    plan.steps.forEach((row, n) => {
      if (!row.span.length) return;
      for (let line = row.span[0]; line <= row.span[1]; line++) found.set(line, n);
    });
    return found;
  }, [plan]);
  const chosen = step.value && step.value.plan === number ? step.value.step : -1;
  const follow = chosen >= 0 && plan.steps[chosen].span.length ? plan.steps[chosen].span[0] : -1;
  return html`<div class="plan">
    <div class="bar">
      <span><b>${plan.title || plan.goal || "plan"}</b>${" "}
        <code title=${plan.hash}>${plan.hash.slice(0, 12)}</code>${number ? ` · compiled at event ${plan.seq}` : ""}</span>
      <${CopyButton} text=${plan.source} />
    </div>
    ${
      plan.source
        ? html`<${VirtualList} label="Text of the plan" class="source" count=${lines.length} height=${24}
            follow=${follow} row=${(
            n,
          ) => {
            const at = stepOf.get(n);
            const state = at === undefined ? "" : data.stepState(number, at, seq.value);
            const isFirst = at !== undefined && stepOf.get(n - 1) !== at;
            return html`<div role="listitem" key=${n} class="line ${at === chosen && at !== undefined ? "chosen" : ""}">
        <span class="number">${n + 1}</span><span class="mark is-${state}"
            aria-hidden="true">${isFirst ? STATUS[state][0] : ""}</span>
        ${at === undefined ? html`<code>${lines[n]}</code>` : html`
          <button tabindex=${-1} onClick=${() => pickStep(number, at)}>${isFirst ? html`
            <span class="only-read">${STATUS[state][1]}: </span>` : ""}<code>${lines[n]}</code></button>`}
      </div>`;
          }} />`
        : html`<p class="quiet">The text of this plan is not in the journal.</p>`
    }
  </div>`;
}
