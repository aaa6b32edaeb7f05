// How long the items of a loop, or the visits of a step, took: a histogram, the slowest, those that failed.
import { useMemo, useState } from "preact/hooks";
import { Status, counted, duration, html } from "./ui.js";
import { histogram, itemsOf, took } from "./loops.js";
import { model, pickVisit, pickedCall, seq } from "./state.js";

const LEAST = 10; // of fewer, the list of visits tells enough
const MOST = 5; // rows of a list at first

export function Spread({ plan, place, visit }) {
  const data = model.value;
  const visits = data.visitsOf[plan][place];
  const all = useMemo(() => {
    const items = itemsOf(data, visit);
    if (items.length) return items;
    return visits.map((each) => ({
      name: each.label || `visit ${each.nth}`,
      start: each.start,
      until: each.until,
      end: each.end,
      isFailed: each.outcome === "failed",
      isSkipped: each.outcome === "skipped",
      visit: each.n,
    }));
  }, [data, visit]);
  const over = all.filter((entry) => entry.end && entry.end <= seq.value && !entry.isSkipped && !entry.isOpen);
  if (over.length < LEAST) return "";
  const sorted = [...over].sort((a, b) => took(b) - took(a));
  const at = (part) => duration(took(sorted[Math.floor((1 - part) * (sorted.length - 1))]));
  const failed = over.filter((entry) => entry.isFailed);
  return html`<section class="spread" aria-label="Durations">
    <h3>${counted(over.length, "time")}</h3>
    <${Histogram} sorted=${sorted} />
    <p class="quiet">median ${at(0.5)} · 95 % within ${at(0.95)} · longest ${at(1)}</p>
    <div class="rankings"><${List} title="Slowest" entries=${sorted} />
      ${failed.length ? html`<${List} title=${`Failed: ${failed.length.toLocaleString("en")}`} entries=${failed} />` : ""}</div>
  </section>`;
}

function pick(entry) {
  pickVisit(entry.visit, true);
  if (entry.call !== undefined) pickedCall.value = { visit: entry.visit, call: entry.call };
}

function Histogram({ sorted }) {
  const { bins, least, width } = histogram(sorted);
  const most = Math.max(...bins.map(([count]) => count));
  const between = (n) => `${duration(least + n * width)} to ${duration(least + (n + 1) * width)}`;
  const said = bins.map(([count], n) => (count ? `${count} took ${between(n)}` : "")).filter(Boolean).join("; ");
  return html`<div>
    <div class="histogram" role="img" aria-label=${said}>${bins.map(([count, failed], n) => html`<span key=${n}
      title=${`${counted(count, "time")}${failed ? `, ${failed} failed` : ""}: ${between(n)}`}
      ><i style=${{ height: `${((count - failed) / most) * 100}%` }}></i
      ><i class="is-failed" style=${{ height: `${(failed / most) * 100}%` }}></i></span>`)}</div>
    <p class="ends quiet" aria-hidden="true"><span>${duration(least)}</span><span>${duration(least + bins.length * width)}</span></p>
  </div>`;
}

function List({ title, entries }) {
  const [most, setMost] = useState(MOST);
  return html`<div class="ranked"><h4>${title}</h4>
    <ol>${entries.slice(0, most).map((entry) => html`<li key=${entry.name}>
      ${entry.isFailed ? html`<${Status} of="failed" words=${false} /> ` : ""}<button class="link" onClick=${() => pick(entry)}>${entry.name}</button>${" "}
      <span class="quiet">${duration(took(entry))}</span></li>`)}</ol>
    ${entries.length > most ? html`<button class="plain" onClick=${() => setMost(most * 4)}>More</button>` : ""}
  </div>`;
}
