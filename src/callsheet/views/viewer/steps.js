// The steps of all plans in text order, with their status.
import { Status, VirtualList, html } from "./ui.js";
import { reasonOfStop } from "./pending.js";
import { model, pickStep, seq, step } from "./state.js";

export function Steps() {
  const data = model.value;
  const rows = data.plans.flatMap((plan, number) => [
    ...(number ? [{ head: `new plan, event ${plan.seq}` }] : []),
    ...plan.steps.map((_, place) => ({ plan: number, step: place })),
  ]);
  const chosen = step.value;
  const follow = chosen ? rows.findIndex((row) => row.plan === chosen.plan && row.step === chosen.step) : -1;
  return html`<nav class="steps panel" aria-label="Steps">
    <h2>Steps <small>${rows.filter((row) => !row.head).length.toLocaleString("en")}</small></h2>
    <${VirtualList} label="Steps of the plan" count=${rows.length} height=${34} follow=${follow}
      row=${(n) => (rows[n].head ? html`<div role="listitem" class="replan"
          key=${n}>${rows[n].head}</div>` : html`<${Row} key=${n} ...${rows[n]} />`)} />
  </nav>`;
}

function Row({ plan, step: place }) {
  const data = model.value;
  const row = data.plans[plan].steps[place];
  const visits = data.visitsOf[plan][place];
  const visit = data.visitAt(plan, place, seq.value);
  const state = data.stateOf(visit, seq.value);
  const isChosen = step.value && step.value.plan === plan && step.value.step === place;
  const retries = visit && state !== "pending" ? data.spent(visit).retries : 0;
  return html`<div role="listitem"><button class="step is-${state} ${isChosen ? "chosen" : ""}"
      aria-current=${isChosen ? "true" : undefined}
    onClick=${() => pickStep(plan, place)}>
    <${Status} of=${state} words=${false} said=${reasonOfStop(data, visit, seq.value)} />
    <b>${row.id}</b>
    <span class="tool">${row.title || row.tool}</span>
    ${visits.length > 1 ? html`<small title="visits">×${visits.length}</small>` : ""}
    ${retries ? html`<small class="retried" title="attempts">↻${retries}</small>` : ""}
  </button></div>`;
}
