// The items of loops and the visits of repeated steps: which are done or under way, how long each took, how fast it goes
// on. No rendering, except of numbers as words.
import { duration } from "./ui.js";

const WINDOW = 50; // the items from whose ends the present rate is computed
const indexes = new WeakMap(); // what is known of a model, which never changes

// The items of each loop of a plan with blocks, by the label of the loop's visit; and the calls by key.
function indexOf(data) {
  if (!indexes.has(data)) {
    const loops = new Map();
    for (const visit of data.visits) addTo(loops, visit);
    indexes.set(data, { loops, calls: new Map(data.calls.map((call) => [call.key, call])), ends: new Map() });
  }
  return indexes.get(data);
}

function addTo(loops, visit) {
  const { label } = visit;
  for (let at = label.indexOf("["); at >= 0; at = label.indexOf("[", at + 1)) {
    const loop = label.slice(0, at);
    const number = label.slice(at + 1, label.indexOf("]", at)); // of a round `#3`
    if (!loops.has(loop)) loops.set(loop, new Map());
    const items = loops.get(loop);
    const item = items.get(number) || { name: `[${number}]`, start: Infinity, until: 0, end: 0, visit: visit.n };
    item.start = Math.min(item.start, visit.start);
    item.until = Math.max(item.until, visit.until);
    item.end = Math.max(item.end, visit.end);
    if (!visit.end && visit.outcome === "open") item.isOpen = true;
    if (visit.outcome === "failed" && !item.isFailed) [item.isFailed, item.visit] = [true, visit.n];
    items.set(number, item);
  }
}

// The items of a visit of a loop: { name, start, until, end, isOpen, isFailed, visit, call }; empty for other steps.
export function itemsOf(data, visit) {
  const found = visit.label ? indexOf(data).loops.get(visit.label) : data.step(visit).foreach && itemsByCall(data, visit);
  return found ? [...found.values()] : [];
}

function itemsByCall(data, visit) {
  const [first, count] = visit.calls;
  const items = new Map();
  for (let n = 0; n < count; n++) {
    const call = data.calls[first + n];
    const item = items.get(call.item) || { name: `[${call.item}]`, start: call.start, until: 0, visit: visit.n };
    items.set(call.item, {
      ...item,
      until: Math.max(item.until, call.until),
      end: call.answered,
      call: n,
      isOpen: !call.answered && call.left > 0,
      isFailed: call.outcome === "err",
    });
  }
  return items;
}

export const callOf = (data, key) => indexOf(data).calls.get(key);

// How far a visit of a loop is: { done, total, open, failed, rate, left }; `total` is 0 if unknown, the rate is in items a
// second, `left` in seconds. Null for what is no loop.
export function pace(data, visit) {
  const { ends: known } = indexOf(data);
  if (!known.has(visit.n)) {
    const items = itemsOf(data, visit);
    const over = items.filter((item) => !item.isOpen && item.end);
    known.set(visit.n, {
      count: items.length,
      failed: over.filter((item) => item.isFailed).length,
      ends: over.map((item) => item.until).sort((a, b) => a - b),
    });
  }
  const { count, failed, ends } = known.get(visit.n);
  if (!count && !visit.items) return null;
  const done = ends.length;
  const some = Math.min(done, WINDOW);
  const since = done > some ? ends[done - some - 1] : visit.start;
  const rate = some > 1 ? some / Math.max(data.duration - since, 0.001) : 0;
  const total = visit.items;
  return { done, total, open: count - done, failed, rate, left: total && rate ? (total - done) / rate : null };
}

// 11/s, 4.2/min or 3/h.
function rateText(rate) {
  const [number, unit] = rate >= 1 ? [rate, "s"] : rate * 60 >= 1 ? [rate * 60, "min"] : [rate * 3600, "h"];
  return `${number.toFixed(number < 10 ? 1 : 0)}/${unit}`;
}

export function paceText({ done, total, failed, rate, left }) {
  const count = total ? `${done.toLocaleString("en")} of ${total.toLocaleString("en")}` : done.toLocaleString("en");
  const parts = [count, failed && `${failed.toLocaleString("en")} with failures`, rate && rateText(rate)];
  return [...parts, left && `about ${rounded(left)} left`].filter(Boolean).join(" · ");
}

const rounded = (seconds) => (seconds < 60 ? `${Math.ceil(seconds)} s` : duration(seconds));

// What a tool reports of a call that is under way: how far it is, from 0 to 1 or null, and in words.
export function shareOf({ done, total, waits }) {
  return !waits && total > 0 && done >= 0 && done <= total ? done / total : null;
}

export function reportText(report) {
  const { done, total, message, waits } = report;
  if (waits) return message;
  const share = shareOf(report);
  const isPart = share !== null && (total === 1 || total === 100);
  const count = isPart ? `${Math.round(share * 100)}%` : total ? `${done} of ${total}` : done === null ? "" : `${done}`;
  return [count, message].filter(Boolean).join(", ");
}

export const took = (entry) => entry.until - entry.start;

// Durations, the longest first, in bins of equal width: { bins: [[how many, how many of them failed]], least, width }.
export function histogram(sorted, count = 24) {
  const least = took(sorted[sorted.length - 1]);
  const width = Math.max(took(sorted[0]) - least, 1e-6) / count;
  const bins = Array.from({ length: count }, () => [0, 0]);
  for (const entry of sorted) {
    const bin = bins[Math.min(count - 1, Math.floor((took(entry) - least) / width))];
    bin[0] += 1;
    if (entry.isFailed) bin[1] += 1;
  }
  return { bins, least, width };
}
