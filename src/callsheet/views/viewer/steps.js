// The steps of all plans in text order, with their status.
import { useState } from "preact/hooks";
import { Status, VirtualList, html } from "./ui.js";
import { pace } from "./loops.js";
import { reasonOfStop } from "./pending.js";
import { isLive, model, pickStep, seq, step } from "./state.js";

const LEAST_FOLDED = 4; // steps in a row that are done are folded if they are so many
const STILL_SHOWN = 2; // the last ones before what is under way are not folded
const OVER = ["ok", "skipped"];

// The rows with those that are done folded: { done: how many } in place of many.
function folded(rows, isDone) {
  const found = [];
  let done = [];
  const flush = (kept) => {
    const many = done.length - kept;
    if (many >= LEAST_FOLDED) found.push({ done: many, key: `done ${found.length}` }, ...done.slice(many));
    else found.push(...done);
    done = [];
  };
  for (const row of rows) {
    if (isDone(row)) done.push(row);
    else {
      flush(STILL_SHOWN);
      found.push(row);
    }
  }
  flush(0);
  return found;
}

export function Steps() {
  const data = model.value;
  const [isUnfolded, setUnfolded] = useState(false);
  const all = data.plans.flatMap((plan, number) => [
    ...(number ? [{ head: `new plan, event ${plan.seq}` }] : []),
    ...plan.steps.map((_, place) => ({ plan: number, step: place })),
  ]);
  const chosen = step.value;
  const isChosen = (row) => chosen && row.plan === chosen.plan && row.step === chosen.step;
  const isDone = (row) => !row.head && !isChosen(row) && OVER.includes(data.stepState(row.plan, row.step, seq.value));
  const folds = isLive.value && data.run.status === "running";
  const rows = folds && !isUnfolded ? folded(all, isDone) : all;
  const canFold = folds && (isUnfolded || rows.length < all.length);
  const follow = chosen ? rows.findIndex(isChosen) : -1;
  return html`<nav class="steps panel" aria-label="Steps">
    <h2>Steps <small>${all.filter((row) => !row.head).length.toLocaleString("en")}</small>
      ${canFold ? html`<button class="link" onClick=${() => setUnfolded(!isUnfolded)}>${isUnfolded ? "fold done" : "show all"}</button>` : ""}</h2>
    <${VirtualList} label="Steps of the plan" count=${rows.length} height=${34} follow=${follow}
      row=${(n) => {
        const row = rows[n];
        if (row.done) return html`<div role="listitem" key=${row.key}><button class="step is-ok" tabindex=${-1}
          onClick=${() => setUnfolded(true)}><${Status} of="ok" words=${false} /> <span class="tool">${row.done} done</span></button></div>`;
        return row.head ? html`<div role="listitem" class="replan" key=${n}>${row.head}</div>`
          : html`<${Row} key=${`${row.plan}/${row.step}`} ...${row} />`;
      }} />
  </nav>`;
}

function Row({ plan, step: place }) {
  const data = model.value;
  const row = data.plans[plan].steps[place];
  const visits = data.visitsOf[plan][place];
  const visit = data.visitAt(plan, place, seq.value);
  const state = data.stateOf(visit, seq.value);
  const isChosen = step.value && step.value.plan === plan && step.value.step === place;
  const loop = state === "open" && seq.value >= data.last ? pace(data, visit) : null;
  const retries = visit && state !== "pending" ? data.spent(visit).retries : 0;
  return html`<div role="listitem"><button class="step is-${state} ${isChosen ? "chosen" : ""}" tabindex=${-1}
      aria-current=${isChosen ? "true" : undefined}
    onClick=${() => pickStep(plan, place)}>
    <${Status} of=${state} words=${false} said=${reasonOfStop(data, visit, seq.value)} />
    <b>${row.id}</b>
    <span class="tool">${row.title || row.tool}</span>
    ${loop ? html`<small>${loop.total ? `${loop.done}/${loop.total}` : loop.done}</small>` : ""}
    ${visits.length > 1 ? html`<small title="visits">×${visits.length}</small>` : ""}
    ${retries ? html`<small class="retried" title="attempts">↻${retries}</small>` : ""}
  </button></div>`;
}
