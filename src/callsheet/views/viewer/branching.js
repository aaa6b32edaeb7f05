// Rerun from a step or fork at an event; without a server, as commands to copy.
import { useEffect, useState } from "preact/hooks";
import { CopyButton, html, shellWord } from "./ui.js";
import { ErrorMessage, into, typed, useAction, useSeen } from "./actions.js";
import { actions, model } from "./state.js";

export function Branching({ at, label }) {
  return html`<details class="branching">
    <summary>Rerun or fork</summary>
    ${actions.value ? html`<${Actions} at=${at} label=${label} />` : html`<${Commands} at=${at} label=${label} />`}
  </details>`;
}

// Whether items of loops may have failed in this run, which has ended.
const canHaveFailedItems = () => ["failed", "done_with_failures"].includes(model.value.run.outcome)
  && model.value.visits.some((each) => model.value.step(each).foreach || model.value.label(each).includes("["));

function Commands({ at, label }) {
  const { id } = model.value.run;
  const commands = [
    ...(canHaveFailedItems() ? [["Run its failed items again", `callsheet rerun ${id} --failed-items`]] : []),
    ["Rerun from this step", `callsheet rerun ${id} --from ${shellWord(label)}`],
    ["Fork at this event, with an edit", `callsheet fork ${id} --at ${at} --set VAR=JSON`],
  ];
  return commands.map(
    ([text, command]) => html`<p key=${text}>
      <span>${text}</span><code>${command}</code><${CopyButton} text=${command} />
    </p>`,
  );
}

function Actions({ at, label }) {
  const data = model.value;
  const [problem, isBusy, act] = useAction();
  const [effects, setEffects] = useState(null); // calls with side effects, and a function to confirm exactly them
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const branch = (action, body) =>
    act(async () => {
      const refusal = await actions.value[action](body);
      const confirm = () => branch(action, { ...body, consent: refusal.consent });
      setEffects(refusal ? { label, at: body.at, list: refusal.effects, kept: refusal.kept || [], confirm } : null);
    });
  const fork = (event) => {
    event.preventDefault();
    branch("fork", { at, variables: name ? { [name]: typed(value) } : {} });
  };
  const isForThisStep = effects && effects.label === label && (effects.at === undefined || effects.at === at);
  const names = data.variablesAt(at).map((write) => write.name);
  return html`<div class="branch-actions">
    <p><button class="plain" disabled=${isBusy}
        onClick=${() => branch("rerun", { step: label })}>Rerun from ${label}</button>
      <small class="quiet">earlier steps keep their results</small></p>
    ${canHaveFailedItems() ? html`<p><button class="plain" disabled=${isBusy}
        onClick=${() => branch("rerun", { failed_items: true })}>Rerun failed items</button>
      <small class="quiet">what the other items of loops gave is kept</small></p>` : ""}
    ${actions.value.change ? html`<p><button class="plain" onClick=${actions.value.change}>Edit the plan</button>
      <small class="quiet">a run of it can keep finished calls</small></p>` : ""}
    <form onSubmit=${fork}>
      <label>Fork after event ${at}, with <select value=${name} onChange=${into(setName)}>
        <option value="">no change</option>
        ${names.map((each) => html`<option key=${each} value=${each}>${model.value.variable(each)}</option>`)}
      </select></label>
      ${name ? html`<label>= <input value=${value} placeholder="text or JSON"
        onInput=${into(setValue)} /></label>` : ""}
      <button class="plain" disabled=${isBusy}>Fork</button>
    </form>
    ${isForThisStep ? html`<${Consent} effects=${effects} isBusy=${isBusy} onLeave=${() => setEffects(null)} />` : ""}
    <${ErrorMessage} text=${problem} />
  </div>`;
}

// The calls that need consent. It is scrolled into view and focused, and its buttons stay visible below a long list.
export function Consent({ effects, isBusy, onLeave }) {
  const box = useSeen(effects);
  useEffect(() => box.current.focus({ preventScroll: true }), [effects]);
  return html`<div class="notice consent" role="group" aria-label="Consent" tabindex="-1" ref=${box}>
    ${effects.kept.length ? html`<ul aria-label="Kept">${effects.kept.map(
      (line, n) => html`<li key=${n}>${line}</li>`)}</ul>` : ""}
    <p>These calls may have side effects:</p>
    <ul tabindex="0" aria-label="Calls">${effects.list.map(
      (each, n) => html`<li key=${n}><b>${each.step}</b> ${each.tool === "RE-PLAN" ? "" : "@"}${each.tool}${" "}
        <span class="quiet">${each.effect}</span>
        <ul>${each.text.map((line, m) => html`<li key=${m}><code>${line}</code></li>`)}</ul></li>`,
    )}</ul>
    <p class="consent-acts"><button class="plain strong" disabled=${isBusy}
        onClick=${effects.confirm}>Continue anyway</button>
      <button class="plain" disabled=${isBusy} onClick=${onLeave}>Do not</button></p>
  </div>`;
}
