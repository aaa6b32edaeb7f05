// Compares this run, A, with another, B: the first difference and its consequences.
import { useEffect, useState } from "preact/hooks";
import { VirtualList, counted, duration, html } from "./ui.js";
import { ValueBox } from "./value.js";
import { into } from "./actions.js";
import { actions, model, pickVisit } from "./state.js";

const NOISES = [0, 0.1, 0.2, 0.5];
const MOST_TIMES = 20;

export function Diff() {
  const data = model.value;
  const { diff } = data.doc;
  const [picked, setPicked] = useState(null); // the number of a pair, and the run B that it belongs to
  const [isCone, setCone] = useState(true);
  if (!diff && actions.value) return html`<div class="pad"><${Other} /></div>`;
  if (!diff)
    return html`
      <p class="pad quiet">No run to compare with: <code>callsheet report ${data.run.id} --diff OTHER</code></p>`;
  const at = picked && picked.of === diff.other.id ? picked.n : diff.first;
  const cone = diff.pairs
    .map((pair, n) => ({ ...pair, n }))
    .filter((pair) => !isCone || diff.first < 0 || pair.n >= diff.first);
  const shown = at >= 0 ? diff.pairs[at] : null;
  const isSame = diff.other.plan_hash === data.run.plan_hash;
  const given = (value) => (value < 0 ? "–" : data.preview(value, 60));
  const leftOut = diff.left_out ? `; ${diff.left_out} more differences are omitted` : "";
  return html`<div class="diff">
    <section aria-label="Differences">
      ${actions.value ? html`<div class="bar"><${Other} /></div>` : ""}
      <p class="bar"><span>A <code>${data.run.id}</code> · B <code>${diff.other.id}</code>${" "}
        <span class="quiet">${diff.other.status}, ${isSame ? "the same plan" : "a different plan"}</span></span>
        <label><input type="checkbox" checked=${isCone} onChange=${() => setCone(!isCone)}
            /> from the first difference on</label></p>
      ${diff.inputs.map(([name, a, b]) => html`<p key=${name}
          class="pad">input <b>${data.variable(name)}</b>: A <code>${given(a)}</code>, B <code>${given(b)}</code></p>`)}
      ${
        diff.pairs.length
          ? html`<${VirtualList} label="Different visits" count=${cone.length} height=${30} row=${(n) => {
              const pair = cone[n];
              const side = pair.a || pair.b;
              const rank = pair.n === diff.first ? "first" : pair.follows ? "follows" : "independent";
              return html`<div role="listitem" key=${pair.n} class="pair ${pair.n === at ? "chosen" : ""}">
                <button tabindex=${-1} aria-pressed=${pair.n === at} onClick=${() => {
                setPicked({ of: diff.other.id, n: pair.n });
                if (pair.a) pickVisit(pair.a.visit);
              }}>
          <span class="rank">${rank}</span> <b>${side.label}</b>${" "}
            <span class="tool">${side.tool ? `@${side.tool}` : ""}</span>${" "}
                <span class="quiet">${pair.what.join(", ")}</span></button></div>`;
            }} />`
          : html`<p class="pad">No differences in ${counted(diff.alike, "visit")} of steps.</p>`
      }
      <p class="pad quiet">${counted(diff.alike, "visit")} equal; times are not compared${leftOut}</p>
      <${Times} diff=${diff} />
    </section>
    ${
      shown
        ? html`<section class="sides" aria-label="Side by side">${[
            ["A", shown.a, shown.b],
            ["B", shown.b, shown.a],
          ].map(
            ([name, side, other]) =>
              html`<div key=${name}><h3>${name}</h3><${Side} side=${side} other=${other} /></div>`,
          )}</section>`
        : ""
    }
  </div>`;
}

// The steps whose durations differ by more than a fraction of the longer one.
function Times({ diff }) {
  const [noise, setNoise] = useState(0.2);
  const apart = diff.times.filter(([, , a, b]) => Math.abs(a - b) > noise * Math.max(a, b));
  return html`<section class="times" aria-label="Times">
    <p class="bar"><b>Times</b>${" "}
      <label>noise <select value=${String(noise)} onChange=${(event) => setNoise(Number(event.currentTarget.value))}>
        ${NOISES.map((part) => html`<option key=${part} value=${String(part)}>${part * 100} %</option>`)}
      </select></label></p>
    ${apart.slice(0, MOST_TIMES).map(
      ([step, nth, a, b]) => html`<p key=${`${step}@${nth}`} class="pad"><b>${nth > 1 ? `${step}@${nth}` : step}</b>${" "}
        ${b > a ? "slower" : "faster"}: A ${duration(a)}, B ${duration(b)}</p>`,
    )}
    ${apart.length > MOST_TIMES ? html`<p class="pad quiet">and ${apart.length - MOST_TIMES} more</p>` : ""}
    ${apart.length ? "" : html`<p class="pad quiet">No step differs by more than that.</p>`}
  </section>`;
}

// The selection of the run B, if a server offers other runs.
function Other() {
  const { diff } = model.value.doc;
  const [runs, setRuns] = useState([]);
  const [picked, setPicked] = useState(null); // compared on request: with keys each run on the way would be picked
  useEffect(() => {
    actions.value.others().then(setRuns, () => setRuns([]));
  }, []);
  const chosen = diff ? diff.other.id : "";
  const others = runs.filter((run) => run.run_id !== model.value.run.id);
  const send = (event) => {
    event.preventDefault();
    actions.value.compare(picked);
  };
  return html`<form class="other" onSubmit=${send}><label>Compare with${" "}
    <select value=${picked === null ? chosen : picked} onChange=${into(setPicked)}>
      <option value="">no other run</option>
      ${diff && !others.some((run) => run.run_id === chosen) ? html`<option value=${chosen}>${chosen}</option>` : ""}
      ${others.map(
        ({ run_id: id, plan, status }) => html`<option key=${id} value=${id}>${id} · ${plan} · ${status}</option>`,
      )}
    </select></label> <button class="plain" disabled=${picked === null || picked === chosen}>Compare</button></form>`;
}

function Side({ side, other }) {
  const data = model.value;
  if (!side) return html`<p class="quiet">Not reached.</p>`;
  if (side.skipped) return html`<p>skipped: ${side.skipped}</p>`;
  const paths = other ? changed(data.parsed(side.value), data.parsed(other.value)) : [];
  return html`<div>
    ${side.args >= 0 && (!other || side.args !== other.args) ? html`<${ValueBox} value=${side.args}
        label="arguments" />` : ""}
    ${side.error >= 0 ? html`<p class="why is-failed">${data.textOf(side.error)}</p>` : ""}
    ${side.value >= 0 ? html`<${ValueBox} value=${side.value} label="value" />` : ""}
    ${paths.length ? html`<p class="quiet">differs at ${paths.slice(0, 8).map((path) => html`
      <code key=${path}>${path || "the whole value"}</code> `)}
      ${paths.length > 8 ? `and ${paths.length - 8} more places` : ""}</p>` : ""}
  </div>`;
}

// The paths at which two values differ.
function changed(one, other, path = [], found = []) {
  if (found.length > 200 || one === undefined || other === undefined) return found;
  const isBoth =
    one !== null &&
    other !== null &&
    typeof one === "object" &&
    typeof other === "object" &&
    Array.isArray(one) === Array.isArray(other);
  if (!isBoth) {
    if (JSON.stringify(one) !== JSON.stringify(other)) found.push(path.join("."));
    return found;
  }
  for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
    if (!(key in one) || !(key in other)) found.push([...path, key].join("."));
    else changed(one[key], other[key], [...path, key], found);
  }
  return found;
}
