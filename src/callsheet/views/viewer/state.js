// The state of the viewer as signals. It is kept in the URL, so that a link shows the same view.
import { batch, computed, effect, signal } from "@preact/signals";
import { Model } from "./model.js";

export const model = signal(null);
export const failure = signal("");
export const isLive = signal(false);
export const seq = signal(0);
export const step = signal(null); // { plan, step, visit }, visit -1 for the one at the current event
export const variable = signal(null); // { name, path }
export const tab = signal("dag");
export const lower = signal("facts");
export const isThen = signal(false); // whether documents are those after the current event
export const query = signal("");
export const isPlaying = signal(false);
export const isHelping = signal(false);
export const theme = signal("auto");
export const base = signal(""); // the beginning of the URL fragment if a page shows several runs: "run=ID"
export const acts = signal(null); // the actions that a server offers for the run

export const TABS = ["dag", "waterfall", "log", "plan"];
export const LOWER = ["facts", "lineage", "confidence", "findings", "lctl", "otel", "cost", "diff", "waits"];

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

const waiting = (made) => made.doc.asks.length + made.doc.doubts.length;

let hasPicked = false; // whether the user has selected a step

export function show(document) {
  const old = model.value;
  const isFirst = old === null;
  const made = new Model(document);
  batch(() => {
    const atEnd = isFirst || seq.value >= model.value.last;
    model.value = made;
    if (isFirst) start(made);
    else if (atEnd) follow(old, made);
    if (lower.value === "waits" && !waiting(made)) lower.value = "facts";
  });
}

// Follows the end of a run that has grown, and shows new questions and failures unless a step is selected.
function follow(old, made) {
  seq.value = made.last;
  if (waiting(made) && !waiting(old)) lower.value = "waits";
  const failed = failureOf(made);
  if (failed && !failureOf(old) && !hasPicked) step.value = { plan: failed.plan, step: failed.step, visit: -1 };
}

const failureOf = (made) => (made.doc.blame && made.doc.blame.visit >= 0 ? made.visits[made.doc.blame.visit] : null);

// Resets the state when no run is shown any more.
export function forget() {
  stop();
  hasPicked = false;
  batch(() => {
    model.value = step.value = variable.value = null;
    failure.value = query.value = "";
    seq.value = 0;
    isThen.value = isHelping.value = false;
    tab.value = "dag";
    lower.value = "facts";
  });
}

function start(made) {
  seq.value = made.last;
  const failed = failureOf(made);
  const first = failed || made.visits[0];
  if (first) step.value = { plan: first.plan, step: first.step, visit: -1 };
  if (waiting(made)) lower.value = "waits";
  read();
}

// ---------------------------------------------------------------- the URL

let isReading = false;
let known = ""; // the URL fragment that was last read or written

export function read() {
  known = location.hash;
  const made = model.value;
  if (!made) return;
  const said = new URLSearchParams(location.hash.slice(1));
  isReading = true;
  batch(() => {
    const at = Number(said.get("seq"));
    if (said.has("seq") && Number.isInteger(at)) seq.value = Math.max(0, Math.min(made.last, at));
    const label = said.get("step");
    if (label !== null) step.value = made.find(label) || step.value;
    const name = said.get("var");
    if (name !== null) {
      const [head, ...path] = name.split(".");
      if (made.writesOf.has(head)) variable.value = { name: head, path: path.map(part) };
    }
    if (TABS.includes(said.get("tab"))) tab.value = said.get("tab");
    if (LOWER.includes(said.get("below"))) lower.value = said.get("below");
    if (said.has("then")) isThen.value = true;
  });
  isReading = false;
}

const part = (text) => (/^-?\d+$/.test(text) ? Number(text) : text);

export function link() {
  const made = model.value;
  const said = [...(base.value ? [base.value] : []), `seq=${seq.value}`];
  const at = step.value;
  if (at) {
    const shown =
      at.visit >= 0
        ? made.label(made.visits[at.visit])
        : `${at.plan ? `r${at.plan}/` : ""}${made.plans[at.plan].steps[at.step].id}`;
    said.push(`step=${encodeURIComponent(shown)}`);
  }
  if (variable.value) said.push(`var=${encodeURIComponent([variable.value.name, ...variable.value.path].join("."))}`);
  if (tab.value !== "dag") said.push(`tab=${tab.value}`);
  if (lower.value !== "facts" || waiting(made))
    said.push(`below=${lower.value}`);
  if (isThen.value) said.push("then");
  return `#${said.join("&")}`;
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
  const made = model.value;
  const all = made.plans.flatMap((plan, number) => plan.steps.map((_, place) => [number, place]));
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
  const made = model.value;
  const isOver = isPlaying.value;
  stop();
  if (isOver) return;
  isPlaying.value = true;
  if (seq.value >= made.last) seq.value = 1;
  const by = Math.max(1, Math.round(made.last / 200));
  player = setInterval(
    () => {
      if (seq.value >= model.value.last) {
        stop();
      } else goTo(seq.value + by);
    },
    Math.max(40, Math.min(400, 12000 / made.last)),
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
