// Rerun from a step or fork at an event; without a server, as commands to copy.
import { useState } from "preact/hooks";
import { CopyButton, html } from "./ui.js";
import { Wrong, into, typed, useDoing } from "./doing.js";
import { acts, model } from "./state.js";

export function Branching({ at, label }) {
  return html`<details class="onwards">
    <summary>Rerun or fork</summary>
    ${acts.value ? html`<${Actions} at=${at} label=${label} />` : html`<${Commands} at=${at} label=${label} />`}
  </details>`;
}

function Commands({ at, label }) {
  const { id } = model.value.run;
  const commands = [
    ["Rerun from this step", `callsheet rerun ${id} --from ${label}`],
    ["Fork at this event, with an edit", `callsheet fork ${id} --at ${at} --set VAR=JSON`],
  ];
  return commands.map(
    ([text, command]) => html`<p key=${text}>
      <span>${text}</span><code>${command}</code><${CopyButton} text=${command} />
    </p>`,
  );
}

function Actions({ at, label }) {
  const made = model.value;
  const [wrong, isBusy, act] = useDoing();
  const [effects, setEffects] = useState(null); // calls with side effects, and `go` to confirm them
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const go = (action, body) =>
    act(async () => {
      const refused = await acts.value[action](body);
      setEffects(refused ? { label, at: body.at, list: refused, go: () => go(action, { ...body, effects: true }) } : null);
    });
  const fork = (event) => {
    event.preventDefault();
    go("fork", { at, variables: name ? { [name]: typed(value) } : {} });
  };
  const isOfThis = effects && effects.label === label && (effects.at === undefined || effects.at === at);
  const names = made.variablesAt(at).map((write) => write.name);
  return html`<div class="deeds">
    <p><button class="plain" disabled=${isBusy}
        onClick=${() => go("rerun", { step: label })}>Rerun from ${label}</button>
      <small class="quiet">earlier steps keep their results</small></p>
    <form onSubmit=${fork}>
      <label>Fork after event ${at}, with <select value=${name} onChange=${into(setName)}>
        <option value="">no change</option>
        ${names.map((each) => html`<option key=${each} value=${each}>$${each}</option>`)}
      </select></label>
      ${name ? html`<label>= <input value=${value} placeholder="text or JSON"
        onInput=${into(setValue)} /></label>` : ""}
      <button class="plain" disabled=${isBusy}>Fork</button>
    </form>
    ${isOfThis ? html`<div class="notice"><p>These calls may have side effects:</p>
      <ul>${effects.list.map(
        (each, n) => html`<li key=${n}><b>${each.step}</b> @${each.tool} <span class="quiet">${each.effect}</span></li>`,
      )}</ul>
      <button class="plain strong" disabled=${isBusy} onClick=${effects.go}>Continue anyway</button></div>` : ""}
    <${Wrong} said=${wrong} />
  </div>`;
}
