// The state of the viewer as signals. It is kept in the URL, so that a link shows the same view.
import { batch, computed, effect, signal } from "@preact/signals";
import { Model } from "./model.js";

export const model = signal(null);
export const failure = signal("");
export const isLive = signal(false);
export const seq = signal(0);
export const step = signal(null); // { plan, step, visit }, visit -1 for the one at the current event
export const pickedCall = signal(null); // { visit, call }: which call of a visit is shown, if one was selected
export const variable = signal(null); // { name, path }
export const tab = signal("dag");
export const lower = signal("facts");
export const isAtEvent = signal(false); // whether documents are those after the current event
export const query = signal("");
export const isPlaying = signal(false);
export const isHelpOpen = signal(false);
export const clockAhead = signal(0); // by how many seconds the clock of the server is ahead
export const beat = signal(0); // counts the seconds of a run that goes on; durations depend on it
export const theme = signal("auto");
export const base = signal(""); // the beginning of the URL fragment if a page shows several runs: "run=ID"
export const reports = signal([]); // what tools report of the calls under way, as the server sends it
export const actions = signal(null); // the actions that a server offers for the run

const BEAT = 1000; // the interval between two beats, in milliseconds

export const TABS = ["dag", "waterfall", "log", "plan"];
const LOWER = ["facts", "lineage", "confidence", "findings", "lctl", "otel", "cost", "diff", "waits"];

// The current visit of the selected step.
export const visit = computed(() => {
  const at = step.value;
  if (!at || !model.value) return null;
  return at.visit >= 0 ? model.value.visits[at.visit] : model.value.visitAt(at.plan, at.step, seq.value);
});

// The current write of the selected variable.
export const written = computed(() => {
  const at = variable.value;
  if (!at || !model.value) return null;
  return model.value.writeAt(at.name, seq.value) || (model.value.writesOf.get(at.name) || [])[0] || null;
});

// While a run goes on, its durations grow with the clock, not only with its events.
effect(() => {
  const data = model.value;
  if (!isLive.value || !data || data.run.status !== "running") return undefined;
  const advance = () => {
    data.advance(Date.now() / 1000 + clockAhead.value);
    beat.value = beat.peek() + 1;
  };
  const timer = setInterval(advance, BEAT);
  return () => clearInterval(timer);
});

const waiting = (data) => data.doc.asks.length + data.doc.doubts.length;

let hasPicked = false; // whether the user has selected a step

export function show(document) {
  const old = model.value;
  const isFirst = old === null;
  const data = new Model(document);
  batch(() => {
    const atEnd = isFirst || seq.value >= model.value.last;
    model.value = data;
    if (isFirst) start(data);
    else if (atEnd) followEnd(old, data);
    if (lower.value === "waits" && !waiting(data)) lower.value = "facts";
  });
}

// Follows the end of a run that has grown, and shows new questions and failures; steps unless one was selected.
function followEnd(old, data) {
  seq.value = data.last;
  if (waiting(data) && !waiting(old)) lower.value = "waits";
  const [now, before] = [pressing(data), pressing(old)];
  if (now && !hasPicked && data.label(now) !== (before && old.label(before))) select(now);
}

// The visit that a person has to look at: the first that waits for one, else the failure.
function pressing(data) {
  const { blame, asks, doubts } = data.doc;
  const open = asks.find((ask) => !ask.answered) || doubts[0];
  const call = open && data.calls.find((each) => each.key === open.key);
  if (call) return data.visits[call.visit];
  return blame && blame.visit >= 0 ? data.visits[blame.visit] : null;
}

const select = (visit) => (step.value = { plan: visit.plan, step: visit.step, visit: -1 });

// Resets the state when no run is shown any more.
export function reset() {
  stop();
  hasPicked = false;
  batch(() => {
    model.value = step.value = variable.value = null;
    reports.value = [];
    pickedCall.value = null;
    failure.value = query.value = "";
    seq.value = 0;
    isAtEvent.value = isHelpOpen.value = false;
    tab.value = "dag";
    lower.value = "facts";
  });
}

function start(data) {
  seq.value = data.last;
  const first = pressing(data) || data.visits[0];
  if (first) select(first);
  if (waiting(data)) lower.value = "waits";
  read();
}

// ---------------------------------------------------------------- the URL

let isReading = false;
let known = ""; // the URL fragment that was last read or written

export function read() {
  known = location.hash;
  const data = model.value;
  if (!data) return;
  const params = new URLSearchParams(location.hash.slice(1));
  isReading = true;
  batch(() => {
    const at = Number(params.get("seq"));
    if (params.has("seq") && Number.isInteger(at)) seq.value = Math.max(0, Math.min(data.last, at));
    const label = params.get("step");
    if (label !== null) step.value = data.resolveLabel(label) || step.value;
    const name = params.get("var");
    if (name !== null) {
      const [head, ...path] = name.split(".");
      if (data.writesOf.has(head)) variable.value = { name: head, path: path.map(part) };
    }
    if (TABS.includes(params.get("tab"))) tab.value = params.get("tab");
    if (LOWER.includes(params.get("below"))) lower.value = params.get("below");
    if (params.has("then")) isAtEvent.value = true;
  });
  isReading = false;
}

const part = (text) => (/^-?\d+$/.test(text) ? Number(text) : text);

export function link() {
  const data = model.value;
  const parts = [...(base.value ? [base.value] : []), `seq=${seq.value}`];
  const at = step.value;
  if (at) {
    const shown =
      at.visit >= 0
        ? data.label(data.visits[at.visit])
        : `${at.plan ? `r${at.plan}/` : ""}${data.plans[at.plan].steps[at.step].id}`;
    parts.push(`step=${encodeURIComponent(shown)}`);
  }
  if (variable.value) parts.push(`var=${encodeURIComponent([variable.value.name, ...variable.value.path].join("."))}`);
  if (tab.value !== "dag") parts.push(`tab=${tab.value}`);
  if (lower.value !== "facts" || waiting(data))
    parts.push(`below=${lower.value}`);
  if (isAtEvent.value) parts.push("then");
  return `#${parts.join("&")}`;
}

export function keepAddress() {
  addEventListener("hashchange", read);
  let timer = 0;
  effect(() => {
    if (!model.value) return;
    link(); // subscribes this effect to all signals of the link
    if (isReading) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      // a URL that was changed meanwhile is about to be read, and is kept
      if (!model.value || location.hash !== known || location.hash === link()) return;
      history.replaceState(null, "", link());
      known = location.hash;
    }, 120);
  });
}

// ---------------------------------------------------------------- navigation

export function goTo(at) {
  seq.value = Math.max(1, Math.min(model.value.last, at));
}

export function pickStep(plan, number, which = -1) {
  hasPicked = true;
  step.value = { plan, step: number, visit: which };
}

export function pickVisit(n, moves = false) {
  const chosen = model.value.visits[n];
  if (!chosen) return;
  hasPicked = true;
  batch(() => {
    if (moves && chosen.end) seq.value = chosen.end;
    const shown = model.value.visitAt(chosen.plan, chosen.step, seq.value);
    step.value = { plan: chosen.plan, step: chosen.step, visit: shown === chosen ? -1 : chosen.n };
  });
}

export function pickVariable(name, path = [], below = "lineage") {
  batch(() => {
    variable.value = { name, path };
    if (below) lower.value = below;
  });
}

export function pickWrite(write, path = []) {
  batch(() => {
    if (write.seq > seq.value || model.value.writeAt(write.name, seq.value) !== write)
      seq.value = Math.max(1, write.seq);
    pickVariable(write.name, path);
  });
}

export function nextStep(by) {
  const data = model.value;
  const all = data.plans.flatMap((plan, number) => plan.steps.map((_, place) => [number, place]));
  if (!all.length) return;
  const at = step.value
    ? all.findIndex(([plan, place]) => plan === step.value.plan && place === step.value.step)
    : -1;
  const [plan, place] = all[Math.max(0, Math.min(all.length - 1, at + by))];
  pickStep(plan, place);
}

// ---------------------------------------------------------------- playback of the journal; nothing is executed

let player = 0;

function stop() {
  clearInterval(player);
  isPlaying.value = false;
}

export function play() {
  const data = model.value;
  const isOver = isPlaying.value;
  stop();
  if (isOver) return;
  isPlaying.value = true;
  if (seq.value >= data.last) seq.value = 1;
  const by = Math.max(1, Math.round(data.last / 200));
  player = setInterval(
    () => {
      if (seq.value >= model.value.last) {
        stop();
      } else goTo(seq.value + by);
    },
    Math.max(40, Math.min(400, 12000 / data.last)),
  );
}

// ---------------------------------------------------------------- theme

const THEMES = ["auto", "light", "dark"];

export function nextTheme() {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length];
}

export function keepTheme() {
  try {
    theme.value = THEMES.includes(localStorage.callsheetTheme) ? localStorage.callsheetTheme : "auto";
  } catch {
    theme.value = "auto"; // a page from disk may have no storage
  }
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
    try {
      localStorage.callsheetTheme = theme.value;
    } catch {
      return;
    }
  });
}
