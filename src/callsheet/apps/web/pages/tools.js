// The tools that plans can call, each with a form to call it once, as a run under the policy and in the journal.
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { ErrorMessage, into, useAction } from "../../viewer/actions.js";
import { Fields, fieldsOf, valuesOf } from "./fields.js";
import { request } from "./session.js";
import { go } from "./route.js";

const EFFECTS = {
  pure: "computes",
  read: "reads",
  llm: "asks a model",
  idempotent: "changes, repeatable",
  keyed: "changes, once a key",
  probe: "changes, can be asked",
  unsafe: "changes",
};

export function Tools({ id }) {
  const [tools, setTools] = useState(null);
  const [filter, setFilter] = useState("");
  const [problem, , act] = useAction();
  useEffect(() => void act(async () => setTools((await request("/v1/tools")).tools)), []);
  const chosen = tools && tools.find((tool) => tool.name === id?.toUpperCase());
  const wanted = filter.trim().toLowerCase();
  const shown = (tools || []).filter((tool) => `${tool.name} ${tool.description} ${tool.origin}`.toLowerCase().includes(wanted));
  return html`<main class="sheet">
    <div class="head-line">
      <h1>Tools</h1>
      <label class="only-read" for="filter">Filter by text</label>
      <input id="filter" type="search" placeholder="filter  /" value=${filter} onInput=${into(setFilter)} />
      <span class="quiet" role="status">${tools ? `${shown.length} of ${tools.length}` : problem ? "" : "loading …"}</span>
    </div>
    <${ErrorMessage} text=${problem} />
    ${id && tools && !chosen ? html`<p class="why is-failed" role="alert">No tool is called ${id} here.</p>` : ""}
    ${chosen ? html`<${Tool} key=${chosen.name} tool=${chosen} />` : ""}
    <ul class="runs">${shown.map(
      (tool) => html`<li key=${tool.name} class="tool-row"><a class="run" data-row href=${`#tool=${tool.name}`}
          aria-current=${tool === chosen ? "true" : undefined}>
        <b>${tool.name}</b>
        <span>${tool.description}</span>
        <span class="quiet">${EFFECTS[tool.effect] || tool.effect}</span>
        <span class="quiet">${tool.origin}</span>
      </a></li>`,
    )}</ul>
  </main>`;
}

function Tool({ tool }) {
  const fields = useMemo(() => fieldsOf(tool.parameters), [tool]);
  const [texts, setTexts] = useState({});
  const [problems, setProblems] = useState({});
  const [problem, isBusy, act] = useAction();
  const call = (event) => {
    event.preventDefault();
    act(async () => {
      const { values, secrets, problems: wrong } = valuesOf(fields, texts);
      setProblems(wrong);
      if (Object.keys(wrong).length) throw new Error("some arguments are not right yet");
      const body = { arguments: values, secrets };
      const { run_id } = await request(`/v1/tools/${encodeURIComponent(tool.name)}/call`, { body });
      await go(`run=${run_id}`);
    });
  };
  return html`<section class="panel tool-card" aria-label=${tool.name}>
    <h2>${tool.name} <small class="quiet">${EFFECTS[tool.effect] || tool.effect} · ${tool.origin}</small></h2>
    <p>${tool.description}</p>
    <pre class="code-page" tabindex="0" role="region" aria-label="How plans call it">${tool.signature}</pre>
    ${tool.refusal ? html`<p class="why is-failed">It is not called now: ${tool.refusal}</p>` : ""}
    <form onSubmit=${call} noValidate>
      <${Fields} id="argument" fields=${fields} texts=${texts} problems=${problems}
        onText=${(name, text) => setTexts((before) => ({ ...before, [name]: text }))} />
      <${ErrorMessage} text=${problem} />
      <p class="joined"><button class="plain strong" disabled=${isBusy}>► Call ${tool.name}</button>
        <span class="quiet">as a run: under the policy, and in the journal</span></p>
    </form>
  </section>`;
}
