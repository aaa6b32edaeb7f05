// Search over steps, variables, values, calls and errors.
import { computed, signal } from "@preact/signals";
import { goTo, model, pickStep, pickVisit, pickWrite, query } from "./state.js";
import { plain } from "./model.js";
import { bytes, html } from "./ui.js";

const MOST = 300;
const MOST_SHOWN = 40;
const at = signal(0);
const isOpen = signal(false);

const hits = computed(() => {
  const data = model.value;
  const wanted = query.value.trim().toLowerCase();
  const found = [];
  if (!data || wanted.length < 2) return found;
  const has = (text) => text.toLowerCase().includes(wanted);
  data.plans.forEach((plan, number) =>
    plan.steps.forEach((row, place) => {
      if (has(row.id) || has(row.title) || has(row.action))
        found.push({ text: `${row.id} ${row.action}`, kind: "step", go: () => pickStep(number, place) });
    }),
  );
  for (const write of data.writes) {
    if (found.length > MOST) break;
    if (has(write.name))
      found.push({
        text: `${data.variable(write.name)} = ${data.preview(write.value, 60)}`,
        kind: "variable",
        go: () => pickWrite(write),
      });
    else if (has(data.value(write.value).text))
      found.push({
        text: `${data.variable(write.name)}: ${around(data.value(write.value).text, wanted)}`,
        kind: "value",
        go: () => pickWrite(write),
      });
  }
  for (const call of data.calls) {
    if (found.length > MOST) break;
    if (has(call.key) || (call.args >= 0 && has(data.value(call.args).text)))
      found.push({
        text: `${call.key} ${data.tool(call.tool)} ${data.preview(call.args, 60)}`,
        kind: "call",
        go: () => pickVisit(call.visit, true),
      });
  }
  for (const event of data.events) {
    if (found.length > MOST) break;
    if (event.type === "err" && event.more >= 0 && has(data.value(event.more).text))
      found.push({
        text: `event ${event.seq}: ${around(data.value(event.more).text, wanted)}`,
        kind: "error",
        go: () => goTo(event.seq),
      });
  }
  return found.slice(0, MOST);
});

function around(text, wanted) {
  const place = text.toLowerCase().indexOf(wanted);
  return plain(`${place > 20 ? "…" : ""}${text.slice(Math.max(0, place - 20), place + 60)}`);
}

export function nextHit(by) {
  const { length } = hits.value;
  if (!length) return;
  at.value = (at.value + by + length) % length;
  hits.value[at.value].go();
}

export function Search() {
  const found = hits.value;
  const onInput = (event) => {
    query.value = event.currentTarget.value;
    at.value = -1;
    isOpen.value = true;
  };
  const onKeyDown = (event) => {
    event.stopPropagation();
    if (event.key === "Escape") {
      isOpen.value = false;
      event.currentTarget.blur();
    } else if (event.key === "Enter" || event.key === "ArrowDown") nextHit(1);
    else if (event.key === "ArrowUp") nextHit(-1);
    else return;
    event.preventDefault();
  };
  const isPartial = model.value.notes.shortened > 0;
  const count = found.length >= MOST ? `${MOST}+` : found.length;
  return html`<div class="search" onFocusOut=${(event) => {
    if (!event.currentTarget.contains(event.relatedTarget)) isOpen.value = false;
  }}>
    <label class="only-read" for="search">Search</label>
    <input id="search" type="search" placeholder="search  /" value=${query} onInput=${onInput}
        onKeyDown=${onKeyDown} onFocus=${() => (isOpen.value = true)} autocomplete="off" spellcheck=${false} />
    <span class="quiet"
        role="status">${query.value.trim().length > 1 ? html`${count} ${found.length === 1 ? "hit" : "hits"}${isPartial ? html`
            <small title=${`Of values over ${bytes(model.value.notes.most)}, the beginning is searched`}>in part</small>` : ""}` : ""}</span>
    ${
      isOpen.value && found.length
        ? html`<ul class="hits">${found.slice(0, MOST_SHOWN).map(
            (hit, n) =>
              html`<li key=${n}><button class=${n === at.value ? "chosen" : ""} onClick=${() => {
                at.value = n;
                hit.go();
                isOpen.value = false;
              }}><span class="quiet">${hit.kind}</span> ${hit.text}</button></li>`,
          )}${found.length > MOST_SHOWN ? html`<li class="quiet">and ${found.length - MOST_SHOWN} more: n leads to the
            next hit</li>` : ""}</ul>`
        : ""
    }
  </div>`;
}
