// The lineage of a value: its sources back to the inputs of the run, and its uses.
import { useState } from "preact/hooks";
import { Confidence, CopyButton, argument, html } from "./ui.js";
import { ValueBox } from "./value.js";
import { origin, plain as plainText, preview } from "./model.js";
import { model, pickVariable, pickVisit, pickWrite, seq, variable, written } from "./state.js";

const MAX_ROWS = 40;

export function Lineage() {
  const data = model.value;
  const write = written.value;
  if (!write) {
    const names = data.variablesAt(seq.value).slice(-30);
    return html`<div class="pad"><p>Select a variable to see its lineage.</p>
      <p>${names.map((each) => html`<button key=${each.name} class="plain"
          onClick=${() => pickVariable(each.name)}>${data.variable(each.name)}</button> `)}</p></div>`;
  }
  const { path } = variable.value;
  return html`<div class="lineage">
    <section aria-label="The value">
      <h3>${data.place(write.name, path)} <small class="quiet">event ${write.seq}</small></h3>
      <${ValueBox} value=${write.value} onPick=${(at) => pickWrite(write, at)} path=${path} open=${path.length + 2} />
      <p class="quiet">Select a part of the value to see the lineage of that part.
        ${" "}<${CopyButton} text=${pathText(data, write.name, path)} label="Copy path" /></p>
    </section>
    <section aria-label="Sources">
      <h3>Sources</h3>
      <${Sources} key=${`${write.n}/${path.join(".")}`} write=${write} path=${path} depth=${3} isRoot=${true} />
    </section>
    <section aria-label="Uses">
      <h3>Uses</h3>
      <${Uses} key=${`${write.n}/${path.join(".")}`} write=${write} path=${path} depth=${3} isRoot=${true} />
    </section>
  </div>`;
}

// The path to a part of a value as the plan's text would write it.
function pathText(data, name, path) {
  if (!data.isTree || !data.run.sigil) return data.place(name, path);
  const part = (each) => (/^[A-Za-z_]\w*$/.test(each) ? `.${each}` : `[${JSON.stringify(each)}]`);
  return data.place(name, []) + path.map(part).join("");
}

const plain = (path) => path.filter((part) => part !== "*");

function Name({ name, write, path }) {
  const data = model.value;
  const shown = data.place(name, path);
  if (write < 0) return html`<span>${shown} <span class="warn">not set</span></span>`;
  return html`<button class="link" onClick=${() => pickWrite(data.writes[write], plain(path))}>${shown}</button>`;
}

function ValuePreview({ write, path }) {
  const data = model.value;
  const value = path.includes("*") ? undefined : data.at(write, path);
  const fact = data.factAt.get(write.n);
  const inside = value === undefined ? "" : preview(value, 60);
  return html`<code>${path.length ? inside : data.preview(write.value, 60)}</code>
    ${fact ? html` <${Confidence} value=${fact.value} short=${true} />` : ""}`;
}

function Producer({ write }) {
  const data = model.value;
  if (write.visit < 0)
    return html`<span class="origin">${origin(write)}</span>`;
  const visit = data.visits[write.visit];
  return html`<span>by <button class="link"
      onClick=${() => pickVisit(visit.n)}>${data.label(visit)} ${data.step(visit).tool}</button>
    ${write.made === "error" ? html`${" "}
        <span class="warn">failed</span>` : ""}</span>`;
}

const roleOf = ({ role, argument: name, item }) =>
  role === "source" && item !== null && item !== undefined
    ? "member of"
    : role === "condition"
      ? `if ${plainText(name)}`
      : `${ROLES[role]} ${item !== null && item !== undefined ? `[${item}] ` : ""}${name ? argument(name) : ""}`;

const ROLES = { condition: "if", source: "for each of", argument: "" };

function Sources({ write, path, depth, isRoot }) {
  const data = model.value;
  const [isOpen, setOpen] = useState(depth > 0);
  const [most, setMost] = useState(MAX_ROWS);
  if (write.visit < 0) return isRoot ? html`<p><${Producer} write=${write} /></p>` : "";
  const flows = data.sourcesOf(write, plain(path));
  const { literals } = data.step(data.visits[write.visit]);
  if (!flows.length && !literals.length)
    return isRoot ? html`<p><${Producer} write=${write} />, without sources</p>` : "";
  if (!isOpen)
    return html`<button class="plain more"
        onClick=${() => setOpen(true)}>… sources: ${flows.length + literals.length}</button>`;
  return html`${isRoot ? html`<p><${Producer} write=${write} /></p>` : ""}<ul class="web">
    ${flows.slice(0, most).map((flow, n) => {
      const from = flow.write >= 0 ? data.writes[flow.write] : null;
      return html`<li key=${n}><span class="quiet">${roleOf(flow)}</span>${" "}
        <${Name} ...${flow} />
        ${from ? html` <${ValuePreview} write=${from} path=${flow.path} /> <${Producer} write=${from} /><${Sources}
            write=${from} path=${flow.path} depth=${depth - 1} />` : ""}</li>`;
    })}
    ${flows.length > most ? html`<li><button class="plain"
        onClick=${() => setMost(most * 5)}>${flows.length - most} more</button></li>` : ""}
    ${literals.map(([name, value], n) => html`<li key=${`l${n}`}>
      <span class="quiet">${argument(name)}</span> <code>${data.preview(value, 60)}</code>${" "}
        <span class="origin">in the plan</span></li>`)}
  </ul>`;
}

function Uses({ write, path, depth, isRoot }) {
  const data = model.value;
  const [isOpen, setOpen] = useState(depth > 0);
  const [most, setMost] = useState(MAX_ROWS);
  const flows = data.usesOf(write, plain(path));
  if (!flows.length) return isRoot ? html`<p class="quiet">No step has read it.</p>` : "";
  if (!isOpen)
    return html`<button class="plain more" onClick=${() => setOpen(true)}>… uses: ${flows.length}</button>`;
  return html`<ul class="web">
    ${flows.slice(0, most).map((flow, n) => {
      const to = flow.write >= 0 ? data.writes[flow.write] : null;
      return html`<li key=${n}><button class="link"
          onClick=${() => pickVisit(flow.visit.n)}>${data.label(flow.visit)} ${data.step(flow.visit).tool}</button>
        ${" "}<span class="quiet">${ROLES[flow.role]} ${flow.argument ? `as ${argument(flow.argument)}` : ""}</span>
        ${to ? html` produced <button class="link"
            onClick=${() => pickWrite(to)}>${to.made === "answer" ? "the answer" : data.variable(to.name)}</button>${" "}
              <${ValuePreview} write=${to} path=${[]} /><${Uses} write=${to} path=${[]} depth=${depth - 1} />` : html`${" "}
                <span class="quiet">${flow.visit.outcome === "skipped" ? "was skipped" : "stored no result"}</span>`}</li>`;
    })}
    ${flows.length > most ? html`<li><button class="plain"
        onClick=${() => setMost(most * 5)}>${flows.length - most} more</button></li>` : ""}
  </ul>`;
}
