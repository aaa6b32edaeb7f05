// The plans of the library.
import { useEffect, useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { Wrong, useDoing } from "../../viewer/doing.js";
import { ask } from "./session.js";

export function Plans() {
  const [rows, setRows] = useState(null);
  const [wrong, isBusy, act] = useDoing();
  const look = () => act(async () => setRows((await ask("/v1/plans")).plans));
  useEffect(() => void look(), []);
  const remove = (id) =>
    act(async () => {
      await ask(`/v1/plans/${encodeURIComponent(id)}`, { method: "DELETE" });
      setRows((await ask("/v1/plans")).plans);
    });
  return html`<main class="sheet">
    <div class="head-line">
      <h1>Saved plans</h1>
      <span class="quiet" role="status">${rows ? rows.length : "looking …"}</span>
    </div>
    <${Wrong} said=${wrong} />
    ${rows && !rows.length ? html`<p class="pad">None yet. “Save” in the <a href="#plan">editor</a> keeps a plan here; so does
      ${" "}<code>callsheet plan save</code>.</p>` : ""}
    <ul class="runs">${(rows || []).map(
      (plan) => html`<li key=${plan.id} class="kept">
        <a class="run" data-row href=${`#plan=${plan.id}`}>
          <b>${plan.id}</b>
          <span>${plan.title || plan.goal || ""}</span>
          <span class="quiet">${told(plan)}</span>
          <span class="quiet">${plan.params.map((param) => `$${param.name}`).join(" ")}</span>
        </a>
        <${Remove} id=${plan.id} isBusy=${isBusy} onYes=${() => remove(plan.id)} />
      </li>`,
    )}</ul>
  </main>`;
}

const told = (plan) =>
  [`${plan.steps ?? "?"} steps`, plan.syntax, plan.version && `version ${plan.version}`].filter(Boolean).join(" · ");

// Deleting asks once more.
function Remove({ id, isBusy, onYes }) {
  const [isSure, setSure] = useState(false);
  if (!isSure)
    return html`<button class="plain" aria-label=${`Delete ${id}`} onClick=${() => setSure(true)}>Delete</button>`;
  return html`<span class="sure">
    <button class="plain strong" disabled=${isBusy} onClick=${onYes}>Delete ${id}</button>
    <button class="plain" onClick=${() => setSure(false)}>Keep it</button></span>`;
}
