// The plans of the library.
import { useEffect, useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { ErrorMessage, useAction } from "../../viewer/actions.js";
import { request } from "./session.js";

export function Plans() {
  const [rows, setRows] = useState(null);
  const [problem, isBusy, act] = useAction();
  const load = () => act(async () => setRows((await request("/v1/plans")).plans));
  useEffect(() => void load(), []);
  const remove = (id) =>
    act(async () => {
      await request(`/v1/plans/${encodeURIComponent(id)}`, { method: "DELETE" });
      setRows((await request("/v1/plans")).plans);
    });
  return html`<main class="sheet">
    <div class="head-line">
      <h1>Saved plans</h1>
      <span class="quiet" role="status">${rows ? rows.length : "loading …"}</span>
    </div>
    <${ErrorMessage} text=${problem} />
    ${rows && !rows.length ? html`<p class="pad">None yet. Save a plan in the <a href="#plan">editor</a>, or with
      ${" "}<code>callsheet plan save</code>.</p>` : ""}
    <ul class="runs">${(rows || []).map(
      (plan) => html`<li key=${plan.id} class="saved-plan">
        <a class="run" data-row href=${`#plan=${plan.id}`}>
          <b>${plan.id}</b>
          <span>${plan.title || plan.goal || ""}</span>
          <span class="quiet">${details(plan)}</span>
          <span class="quiet">${plan.params.map((param) => `$${param.name}`).join(" ")}</span>
        </a>
        <${Remove} id=${plan.id} isBusy=${isBusy} onYes=${() => remove(plan.id)} />
      </li>`,
    )}</ul>
    <${Started} heading="Schedules" path="/v1/schedules" name="schedules" shown=${ofSchedule} />
    <${Started} heading="Webhooks" path="/v1/webhooks" name="webhooks" shown=${ofWebhook} />
  </main>`;
}

// What starts plans by itself, each with its last run; nothing if the project has none.
function Started({ heading, path, name, shown }) {
  const [rows, setRows] = useState([]);
  const [problem, , act] = useAction();
  useEffect(() => void act(async () => setRows((await request(path))[name])), []);
  return html`<${ErrorMessage} text=${problem} />${rows.length
    ? html`<div class="head-line"><h2>${heading}</h2><span class="quiet">${rows.length}</span></div>
        <ul class="runs">${rows.map((row) => {
          const [title, when, more, whole] = shown(row);
          return html`<li key=${title} class="saved-plan webhook"><div class="run">
            <b>${title}</b>
            <span>${row.plan}</span>
            <span class="quiet" title=${whole}>${when}</span>
            <span class="quiet">${more}</span>
          </div>
          ${row.problem
            ? html`<span class="is-failed">${row.problem}</span>`
            : row.last
              ? html`<a class="plain" href=${`#run=${row.last.run_id}`}>last run: ${row.last.status.replaceAll("_", " ")}</a>`
              : html`<span class="quiet">no run yet</span>`}</li>`;
        })}</ul>`
    : ""}`;
}

const ofWebhook = (row) => [
  row.name,
  row.path,
  Object.entries(row.takes).map(([name, path]) => `$${name} = ${path}`).join(" · "),
  `${row.path}, signed as ${row.signature}`,
];
const ofSchedule = (row) => [
  row.schedule,
  `next ${row.next.slice(0, 16).replace("T", " ")}`,
  `${row.cron} ${row.timezone}`,
  row.next,
];

const details = (plan) =>
  [`${plan.steps ?? "?"} step${plan.steps === 1 ? "" : "s"}`, plan.syntax, plan.version && `version ${plan.version}`].filter(Boolean).join(" · ");

// The delete button, which asks for confirmation.
function Remove({ id, isBusy, onYes }) {
  const [isConfirming, setConfirming] = useState(false);
  if (!isConfirming)
    return html`<button class="plain" aria-label=${`Delete ${id}`} onClick=${() => setConfirming(true)}>Delete</button>`;
  return html`<span class="confirm">
    <button class="plain strong" disabled=${isBusy} onClick=${onYes}>Delete ${id}</button>
    <button class="plain" onClick=${() => setConfirming(false)}>Keep it</button></span>`;
}
