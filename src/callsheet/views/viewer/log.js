// The events of the journal, one a row. Only visible rows are rendered, since there may be over 100,000.
import { useMemo } from "preact/hooks";
import { VirtualList, counted, html } from "./ui.js";
import { ValueBox } from "./value.js";
import { batch, useSignal } from "@preact/signals";
import { goTo, model, pickStep, seq } from "./state.js";

export function Log() {
  const data = model.value;
  const kind = useSignal("all");
  const kinds = useMemo(() => {
    const found = new Map();
    for (const event of data.events) found.set(event.type, (found.get(event.type) || 0) + 1);
    return [...found].sort();
  }, [data]);
  const rows = useMemo(
    () => (kind.value === "all" ? data.events : data.events.filter((event) => event.type === kind.value)),
    [data, kind.value],
  );
  const follow = useMemo(() => lastUpTo(rows, seq.value), [rows, seq.value]);
  const now = data.events[seq.value - 1];
  return html`<div class="log">
    <div class="bar">
      <label>show <select value=${kind.value} onChange=${(event) => (kind.value = event.currentTarget.value)}>
        <option value="all">all events (${data.events.length.toLocaleString("en")})</option>
        ${kinds.map(([name, count]) => html`<option key=${name}
            value=${name}>${name} (${count.toLocaleString("en")})</option>`)}
      </select></label>
      <span class="quiet">${counted(rows.length, "event")}</span>
    </div>
    <${VirtualList} label="Events" class="events" count=${rows.length} height=${26} follow=${follow}
      row=${(n) => html`<${Row} key=${rows[n].seq} event=${rows[n]} isNow=${rows[n].seq === seq.value}
          isLater=${rows[n].seq > seq.value} />`} />
    ${now ? html`<${Detail} event=${now} />` : ""}
  </div>`;
}

function lastUpTo(rows, at) {
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (rows[middle].seq <= at) low = middle;
    else high = middle - 1;
  }
  return rows.length ? low : -1;
}

function Row({ event, isNow, isLater }) {
  const data = model.value;
  const text =
    event.value >= 0 ? data.preview(event.value, 160) : event.more >= 0 ? data.preview(event.more, 160) : "";
  const pick = () =>
    batch(() => {
      goTo(event.seq);
      const plan = data.planAt(event.seq);
      const number = data.plans[plan].steps.findIndex((row) => row.id === event.step);
      if (number >= 0) pickStep(plan, number);
    });
  return html`<div role="listitem"
      class="event is-${event.type} ${isNow ? "now" : ""} ${isLater ? "later" : ""}"><button tabindex=${-1} onClick=${pick}
      aria-current=${isNow ? "true" : undefined}>
    <span class="seq">${event.seq}</span><span class="at">${event.t.toFixed(3)}</span>
      <span class="type">${event.type}</span><span class="key">${event.key}</span><span class="said">${text}</span>
  </button></div>`;
}

function Detail({ event }) {
  return html`<section class="detail" aria-label="Event">
    <p><b>event ${event.seq}</b> ${event.type} <code>${event.key}</code>${" "}
      <span class="quiet">epoch ${event.epoch}, hash ${event.hash}…</span></p>
    ${event.value >= 0 ? html`<${ValueBox} value=${event.value} label="value" />` : ""}
    ${event.more >= 0 ? html`<${ValueBox} value=${event.more} label="body" />` : ""}
    ${event.value < 0 && event.more < 0 ? html`<p class="quiet">No body.</p>` : ""}
  </section>`;
}
