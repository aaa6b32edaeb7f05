// The resource use of the run, in total and by step.
import { useMemo } from "preact/hooks";
import { VirtualList, bytes, duration, html } from "./ui.js";
import { model, pickStep } from "./state.js";

export function Cost() {
  const data = model.value;
  const { usage } = data.doc;
  const rows = useMemo(() => {
    const found = [];
    data.visitsOf.forEach((steps, plan) =>
      steps.forEach((visits, place) => {
        const sum = {
          plan,
          place,
          visits: visits.length,
          calls: 0,
          retries: 0,
          model: 0,
          tokensIn: 0,
          tokensOut: 0,
          cost: 0,
          busy: 0,
        };
        for (const visit of visits) {
          const spent = data.spent(visit);
          for (const name of Object.keys(spent)) sum[name] += spent[name];
        }
        if (sum.visits) found.push(sum);
      }),
    );
    return found.sort((a, b) => b.cost - a.cost || b.busy - a.busy);
  }, [data]);
  const most = Math.max(...rows.map((row) => row.busy), 0.001);
  const sums = [
    ["steps", usage.steps],
    ["calls", usage.calls],
    ["retries", usage.retries],
    ["waited", duration(usage.waited)],
    ["model calls", usage.model_calls],
    ["tokens in", usage.input_tokens],
    ["tokens out", usage.output_tokens],
    ["cached tokens", usage.cached_tokens],
    ["cost", usage.cost === null ? "unknown" : usage.cost ? usage.cost.toPrecision(4) : 0],
    ["calls without price", usage.unpriced],
    ["results", bytes(usage.bytes)],
    ["sent early", usage.early],
  ].filter(([, value]) => value && value !== "0 ms" && value !== "0 B");
  return html`<div class="cost table">
    <dl class="sums pad">${sums.map(([name, value]) => html`
      <div key=${name}><dt>${name}</dt>
        <dd>${typeof value === "number" ? value.toLocaleString("en") : value}</dd></div>`)}</dl>
    <div class="row head"
        aria-hidden="true"><span>step</span>
          <span>tool</span>
          <span>busy</span>
          <span></span>
          <span>calls</span>
          <span>retries</span>
          <span>tokens</span>
          <span>cost</span></div>
    <${VirtualList} label="Resource use by step" count=${rows.length} height=${28} row=${(n) => {
      const row = rows[n];
      const step = data.plans[row.plan].steps[row.place];
      return html`<div role="listitem" class="row" key=${`${row.plan}/${row.place}`}>
        <span><button class="link" tabindex=${-1}
            onClick=${() => pickStep(row.plan, row.place)}>${row.plan ? `r${row.plan}/` : ""}${step.id}</button></span>
        <span class="said">${step.tool}</span><span>${row.calls ? duration(row.busy) : "–"}</span>
        <span class="share" aria-hidden="true"><span style=${{ width: `${(row.busy / most) * 100}%` }}></span></span>
        <span>${row.calls.toLocaleString("en")}</span><span>${row.retries || ""}</span>
        <span>${row.tokensIn || row.tokensOut ? `${row.tokensIn} / ${row.tokensOut}` : ""}</span>
          <span>${row.cost ? row.cost.toPrecision(3) : ""}</span>
      </div>`;
    }} />
  </div>`;
}
