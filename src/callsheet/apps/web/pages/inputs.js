// The inputs of the run that the editor starts: a form if the plan declares them, else a row for each variable.
import { useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { into } from "../../viewer/actions.js";
import { Fields } from "./fields.js";

export function Inputs({ isRead, fields, inputs, unset, problems, onChange, terms, onTerms }) {
  return html`<div class="pad inputs">
    ${terms ? html`<${Terms} terms=${terms} onTerms=${onTerms} />` : ""}
    ${!isRead
      ? html`<p class="quiet">Reading the plan …</p>`
      : fields
      ? fields.length
        ? html`<form onSubmit=${(event) => event.preventDefault()}>
            <${Fields} id="input" fields=${fields} texts=${inputs} problems=${problems}
              onText=${(name, text) => onChange({ ...inputs, [name]: text })} />
            <p class="quiet">An empty field is not given; <code>""</code> is an empty text.</p></form>`
        : html`<p class="quiet">The plan has no inputs.</p>`
      : html`<${Variables} inputs=${inputs} unset=${unset} onChange=${onChange} />`}
  </div>`;
}

// What the run has in common with the one that it is like, besides plan and inputs.
function Terms({ terms, onTerms }) {
  const said = [
    terms.approve.length && `approval for ${terms.approve.map((name) => `@${name}`).join(", ")}`,
    Object.entries(terms.limits).map(([name, bound]) => `${name} ${JSON.stringify(bound)}`).join(", "),
    terms.policy && `policy ${terms.policy}`,
    ...Object.entries(terms.tags).map(([name, value]) => `${name}=${value}`),
  ].filter(Boolean);
  return html`<p class="notice">Like run <a href=${`#run=${terms.like}`}>${terms.like}</a>${said.length ? `: ${said.join(" · ")}` : ""}.
    ${terms.sealed.length ? ` Its secrets have to be given again: ${terms.sealed.join(", ")}.` : ""}
    ${" "}<button class="link" onClick=${() => onTerms(null)}>Forget that run</button></p>`;
}

function Variables({ inputs, unset, onChange }) {
  const [name, setName] = useState("");
  const missing = unset.filter((each) => !(each in inputs));
  const add = (event) => {
    event.preventDefault();
    if (name) onChange({ ...inputs, [name]: "" });
    setName("");
  };
  const addButton = (each) => html`
    <button class="plain" key=${each} onClick=${() => onChange({ ...inputs, [each]: "" })}>+ $${each}</button> `;
  const without = (removed) => Object.fromEntries(Object.entries(inputs).filter(([each]) => each !== removed));
  return html`<div>
    <p class="quiet">The inputs of the run: text, or JSON such as <code>12</code> or <code>["a", "b"]</code>. An empty field sets
      nothing; <code>""</code> is an empty text.</p>
    ${missing.length ? html`<p>Variables that no step sets: ${missing.map(addButton)}</p>` : ""}
    ${Object.entries(inputs).map(
      ([each, value]) => html`<p class="input" key=${each}>
        <label for=${`input-${each}`}>$${each}</label>
        <input id=${`input-${each}`} value=${value} onInput=${into((entered) => onChange({ ...inputs, [each]: entered }))} />
        <button class="plain" aria-label=${`Remove $${each}`} onClick=${() => onChange(without(each))}>✕</button>
      </p>`,
    )}
    <form class="input" onSubmit=${add}>
      <label for="input-new">new</label>
      <input id="input-new" placeholder="name" pattern="[A-Za-z_][A-Za-z0-9_]*" value=${name}
        onInput=${into(setName)} />
      <button class="plain">Add</button>
    </form>
  </div>`;
}
