// The data model of a run: rows as objects, and the queries of the panels. No rendering.

export const FORMAT = 2;

const MIN_CONFIDENCE = 0.4; // the confidence below which a fact is not handed on

function rows(table) {
  const { columns } = table;
  return table.rows.map((row, n) => {
    const object = { n };
    for (let i = 0; i < columns.length; i++) object[columns[i]] = row[i];
    return object;
  });
}

// A number that a browser's JSON would round, as its text.
export class Exact {
  constructor(text) {
    this.text = text;
  }
}

function exact(_key, value, context) {
  if (typeof value !== "number" || !context || context.source === undefined) return value;
  return context.source === String(value) ? value : new Exact(context.source);
}

// The value of a JSON text; undefined if it is none.
export function parse(text) {
  try {
    return JSON.parse(text, exact);
  } catch {
    return undefined;
  }
}

// The value of the beginning of a JSON text: what is complete there, and the beginning of a text at its end.
export function parseBeginning(text) {
  const open = []; // the brackets that are open, as those that close them
  let [isText, isName, wantsName] = [false, false, false];
  let [end, closers] = [0, ""]; // where the text can be cut, and what closes it there
  const cutAt = (place) => ([end, closers] = [place, [...open].reverse().join("")]);
  for (let n = 0; n < text.length; n++) {
    const char = text[n];
    if (isText) {
      if (char === "\\") n += 1;
      else if (char === '"') isText = false;
    } else if (char === '"') [isText, isName] = [true, wantsName];
    else if (char === "{" || char === "[") {
      open.push(char === "{" ? "}" : "]");
      wantsName = char === "{";
      cutAt(n + 1);
    } else if (char === "}" || char === "]") {
      open.pop();
      wantsName = false;
      cutAt(n + 1);
    } else if (char === ",") {
      cutAt(n);
      wantsName = open[open.length - 1] === "}";
    } else if (char === ":") wantsName = false;
  }
  if (isText && !isName) {
    const whole = text.replace(/\\(u[0-9a-fA-F]{0,3})?$/, (part, _, at) => (isEscaped(text, at) ? part : ""));
    const found = parse(`${whole}…"${[...open].reverse().join("")}`);
    if (found !== undefined) return found;
  }
  return end ? parse(text.slice(0, end) + closers) : undefined;
}

// Whether the backslash at a place is itself escaped.
function isEscaped(text, at) {
  let before = 0;
  while (text[at - 1 - before] === "\\") before += 1;
  return before % 2 === 1;
}

export class Model {
  constructor(doc) {
    this.doc = doc;
    this.run = doc.run;
    this.notes = doc.notes;
    this.plans = doc.plans.map((plan) => ({ ...plan, steps: rows(plan.steps) }));
    this.events = rows(doc.events);
    this.visits = rows(doc.visits);
    this.calls = rows(doc.calls);
    this.writes = rows(doc.writes);
    this.facts = rows(doc.facts);
    this.findings = rows(doc.findings);
    this.hops = rows(doc.hops);
    this.last = this.events.length ? this.events[this.events.length - 1].seq : 0;
    this.duration = Math.max(this.run.inherited + this.run.seconds, 0.001);
    this.visitsOf = this.plans.map((plan) => plan.steps.map(() => []));
    for (const visit of this.visits) this.visitsOf[visit.plan][visit.step].push(visit);
    this.factOf = new Map(this.facts.map((fact) => [fact.id, fact]));
    this.factAt = new Map(this.facts.map((fact) => [fact.write, fact]));
    this.writesOf = new Map();
    for (const write of this.writes) {
      const list = this.writesOf.get(write.name);
      if (list) list.push(write);
      else this.writesOf.set(write.name, [write]);
    }
    this.labels = new Map(this.visits.map((visit) => [this.label(visit), visit]));
    this.isTree = this.plans.length > 0 && this.plans[0].layout.is_nested === true; // whether its plan has blocks
    this._parsed = new Map();
    this._spent = new Map();
  }

  // ------------------------------------------------------------ names

  step(visit) {
    return this.plans[visit.plan].steps[visit.step];
  }

  label(visit) {
    if (visit.label) return visit.label;
    const generation = visit.plan ? `r${visit.plan}/` : "";
    return `${generation}${this.step(visit).id}${visit.nth > 1 ? `@${visit.nth}` : ""}`;
  }

  // Resolves the label in a link: of a visit, or of a step that was not reached.
  resolveLabel(label) {
    const visit = this.labels.get(label);
    if (visit) return { plan: visit.plan, step: visit.step, visit: visit.n };
    for (const [plan, { steps }] of this.plans.entries()) {
      const prefix = plan ? `r${plan}/` : "";
      const step = steps.findIndex((each) => prefix + each.id === label);
      if (step >= 0) return { plan, step, visit: -1 };
    }
    return null;
  }

  // ------------------------------------------------------------ the run after an event

  stateOf(visit, seq) {
    if (!visit) return "pending";
    if (visit.seq > seq) return this.wasSent(visit, seq) ? "open" : "pending";
    if (visit.end && visit.end <= seq) return visit.outcome;
    if (!visit.end && seq >= this.last) return visit.outcome;
    return "open";
  }

  wasSent(visit, seq) {
    const [first, count] = visit.calls;
    for (let n = first; n < first + Math.min(count, 50); n++) {
      if (this.calls[n].left && this.calls[n].left <= seq) return true;
    }
    return false;
  }

  // The visit of a step to show after an event: the last one that had begun, otherwise the first.
  visitAt(plan, step, seq) {
    const list = this.visitsOf[plan][step];
    return list[Math.max(0, countUpTo(list, seq) - 1)] || null;
  }

  stepState(plan, step, seq) {
    return this.stateOf(this.visitAt(plan, step, seq), seq);
  }

  writeAt(name, seq) {
    const list = this.writesOf.get(name) || [];
    return list[countUpTo(list, seq) - 1] || null;
  }

  variablesAt(seq) {
    const found = [];
    for (const name of this.writesOf.keys()) {
      const write = this.writeAt(name, seq);
      if (write && write.made !== "inner") found.push(write);
    }
    return found;
  }

  planAt(seq) {
    let found = 0;
    this.plans.forEach((plan, n) => {
      if (plan.seq <= seq) found = n;
    });
    return found;
  }

  timeAt(seq) {
    const event = this.events[Math.min(seq, this.events.length) - 1];
    return event ? event.t : 0;
  }

  // Converts a time of the axis to seconds since 1970. The events from the parent of a fork are earlier.
  clockAt(t) {
    const { began, created, inherited } = this.run;
    return inherited && t <= inherited ? began + t : created + t - inherited;
  }

  // Moves the end of the axis of a run that goes on to a time in seconds since 1970: what is under way has taken
  // its time up to then. Events are far apart where a call takes long.
  advance(now) {
    const { created, inherited } = this.run;
    const t = now - created + inherited;
    if (t <= this.duration) return;
    this.duration = t;
    for (const visit of this.visits) if (!visit.end && visit.outcome === "open") visit.until = Math.max(visit.until, t);
    for (const call of this.calls) if (call.left && !call.answered) call.until = Math.max(call.until, t);
  }

  // How long the run has taken, without what it has inherited.
  get seconds() {
    return this.duration - this.run.inherited;
  }

  // ------------------------------------------------------------ values

  // A value as { text, size, cut, digest, kind }: `cut` and the digest of its JSON text for a shortened one, `kind`
  // for an omitted one.
  value(n) {
    if (n < 0) return { text: "", size: 0 };
    const shown = this.doc.values[n];
    if (typeof shown === "string") return { text: shown, size: shown.length };
    if (shown[0] === null) return { text: "", size: shown[1], kind: shown[2] };
    return { text: shown[0], size: shown[1], cut: true, digest: shown[2] };
  }

  parsed(n) {
    if (this._parsed.has(n)) return this._parsed.get(n);
    const { text, cut, kind } = this.value(n);
    const found = cut || kind || !text ? undefined : parse(text);
    if (this._parsed.size > 2000) this._parsed.clear();
    this._parsed.set(n, found);
    return found;
  }

  preview(n, most = 120) {
    const { text, size, cut, kind } = this.value(n);
    if (kind) return `(${kind}, ${size} bytes)`;
    if (!text) return "";
    const shown = plain(text.length > most ? `${text.slice(0, most)}…` : text);
    return cut && !shown.endsWith("…") ? `${shown}…` : shown;
  }

  // The text with a number in the table of values, such as an error.
  textOf(n) {
    const value = this.parsed(n);
    return typeof value === "string" ? plain(value) : this.preview(n, 400);
  }

  at(write, path) {
    let value = this.parsed(write.value);
    for (const part of path) {
      if (typeof value === "string") {
        try {
          value = JSON.parse(value, exact);
        } catch {
          return undefined;
        }
      }
      if (value === null || typeof value !== "object" || value instanceof Exact) return undefined;
      const key = Array.isArray(value) && part < 0 ? value.length + part : part;
      value = Object.prototype.hasOwnProperty.call(value, key) ? value[key] : undefined;
    }
    return value;
  }

  // ------------------------------------------------------------ lineage

  // The reads of a visit, for one item or for all: { role, argument, name, write, path }.
  reads(visit, item = null) {
    const step = this.step(visit);
    const found = [];
    const items = this.resultItems(visit);
    for (const [role, argument, name, path, each, only] of step.uses) {
      if (only >= 0 && (item === null ? items.length && !items.includes(only) : only !== item)) continue;
      if (role === "source" && item !== null) continue;
      const write = visit.versions[step.names.indexOf(name)];
      let fullPath = path;
      if (each >= 0) {
        const source = write >= 0 ? this.at(this.writes[write], path.slice(0, each)) : undefined;
        const isOne = source !== undefined && !Array.isArray(source) && !(typeof source === "string");
        const place = isOne ? [] : item === null ? ["*"] : [item];
        fullPath = [...path.slice(0, each), ...place, ...path.slice(each + 1)];
      }
      found.push({ role, argument, name, write: write === undefined ? -1 : write, path: fullPath });
    }
    return found;
  }

  itemsOf(visit) {
    const [first, count] = visit.calls;
    const items = new Set();
    for (let n = first; n < first + count; n++) items.add(this.calls[n].item);
    return [...items].sort((a, b) => a - b);
  }

  // The items with results of a visit; a failed loop may have fewer results than calls.
  resultItems(visit) {
    const items = this.itemsOf(visit);
    const value = visit.write >= 0 ? this.at(this.writes[visit.write], []) : undefined;
    return Array.isArray(value) ? items.slice(0, value.length) : items;
  }

  // The sources of a part of a value.
  sourcesOf(write, path) {
    if (write.parts) return this.sourcesByParts(write, path);
    if (write.visit < 0) return [];
    const visit = this.visits[write.visit];
    let item = null;
    if (this.step(visit).foreach && typeof path[0] === "number") {
      const items = this.resultItems(visit);
      if (path[0] < items.length) item = items[path[0]];
    }
    return this.reads(visit, item);
  }

  // The sources of a part of a value in a run of a plan with blocks, each with the way on in what it is a copy of.
  sourcesByParts(write, path) {
    const found = [];
    for (const [at, isCopy, ofWhole, role, argument, item, name, from, place] of write.parts) {
      if ((ofWhole && path.length) || !overlap(at, path)) continue;
      const rest = isCopy && path.length > at.length ? path.slice(at.length) : [];
      found.push({ role, argument, item: item < 0 ? null : item, name, write: from, path: [...place, ...rest] });
    }
    return found;
  }

  // The parts of other writes that each write went into, by its number.
  get partsFrom() {
    if (!this._partsFrom) {
      this._partsFrom = new Map();
      for (const write of this.writes) {
        for (const part of write.parts || []) {
          const list = this._partsFrom.get(part[7]);
          if (list) list.push({ write, part });
          else this._partsFrom.set(part[7], [{ write, part }]);
        }
      }
    }
    return this._partsFrom;
  }

  get readers() {
    if (!this._readers) {
      this._readers = new Map();
      for (const visit of this.visits) {
        for (const write of new Set(visit.versions)) {
          if (write < 0) continue;
          const list = this._readers.get(write);
          if (list) list.push(visit);
          else this._readers.set(write, [visit]);
        }
      }
    }
    return this._readers;
  }

  // The uses of a part of a value: { visit, role, argument, path, write }; `write` is the result, or -1.
  usesOf(write, path) {
    const found = [];
    if (write.parts) {
      for (const { write: to, part } of this.partsFrom.get(write.n) || []) {
        const [, , , role, argument, , , , place] = part;
        if (to.visit < 0 || !overlap(place, path)) continue;
        found.push({ visit: this.visits[to.visit], role, argument, path: place, write: to.n });
      }
      const made = new Set(found.map((each) => each.visit.n));
      for (const visit of this.readers.get(write.n) || []) {
        const use = this.reads(visit).find((each) => each.write === write.n && overlap(each.path, path));
        if (use && !made.has(visit.n))
          found.push({ visit, role: use.role, argument: use.argument, path: use.path, write: -1 });
      }
      return found;
    }
    for (const visit of this.readers.get(write.n) || []) {
      const use = this.reads(visit).find((each) => each.write === write.n && overlap(each.path, path));
      if (!use) continue;
      const result = visit.write >= 0 ? visit.write : this.answerOf(visit);
      found.push({ visit, role: use.role, argument: use.argument, path: use.path, write: result });
    }
    return found;
  }

  answerOf(visit) {
    const { answer } = this.run;
    return answer >= 0 && this.writes[answer].visit === visit.n ? answer : -1;
  }

  // A variable as the plan names it.
  variable(name) {
    const { names, sigil } = this.run;
    return Object.hasOwn(names, name) ? names[name] : NAMELESS.has(name) ? name : sigil + name;
  }

  // A tool as the plan names it.
  tool(name) {
    const { tools } = this.run;
    return Object.hasOwn(tools, name) ? tools[name] : name;
  }

  // A variable with a path, in the notation of plans.
  place(name, path) {
    if (this.run.sigil) return [this.variable(name), ...path].join(".");
    return this.variable(name) + path.map((each) => `[${JSON.stringify(each)}]`).join("");
  }

  // The label of the loop or sub-plan around a visit of a plan with blocks; "" for none.
  around(visit) {
    let label = visit.label || "";
    while (label.includes("/")) {
      label = label.slice(0, label.lastIndexOf("/"));
      for (const each of [label, label.replace(/\[[^\[\]]*\]$/, "")])
        if (this.labels.has(each) && this.labels.get(each) !== visit) return each;
    }
    return "";
  }

  // The value that was not passed on between two steps up to an event, or null: { name, why, value }.
  lost(plan, start, end, seq) {
    const from = this.plans[plan].steps[start];
    const to = this.plans[plan].steps[end];
    const visit = this.visitAt(plan, end, seq);
    const name = from.output.replace(/^\$/, "").split(":")[0];
    const place = to.names.indexOf(name);
    if (!visit || visit.seq > seq || place < 0) return null;
    const version = visit.versions[place];
    const write = version >= 0 ? this.writes[version] : null;
    if (!write) return { name, why: "lost" };
    const by = write.visit >= 0 ? this.visits[write.visit] : null;
    if (!by || by.plan !== plan || by.step !== start) return null; // it is the output of another step
    const fact = this.factAt.get(version);
    return fact && fact.value < MIN_CONFIDENCE ? { name, why: "blocked", value: fact.value } : null;
  }

  // ------------------------------------------------------------ resource use

  spent(visit) {
    if (!this._spent.has(visit.n)) this._spent.set(visit.n, this.sum(visit));
    return this._spent.get(visit.n);
  }

  sum(visit) {
    const [first, count] = visit.calls;
    const sum = { calls: 0, retries: 0, model: 0, tokensIn: 0, tokensOut: 0, cost: 0, busy: 0 };
    for (let n = first; n < first + count; n++) {
      const call = this.calls[n];
      sum.calls += call.left ? 1 : 0;
      sum.retries += call.attempt > 1 && !call.turn ? 1 : 0;
      sum.model += call.model;
      sum.tokensIn += call.tokens_in;
      sum.tokensOut += call.tokens_out;
      sum.cost += call.cost;
      sum.busy += call.until - call.start;
    }
    return sum;
  }
}

// The number of rows, which are sorted by event, up to an event.
function countUpTo(list, seq) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].seq <= seq) low = middle + 1;
    else high = middle;
  }
  return low;
}

function overlap(one, other) {
  for (let n = 0; n < Math.min(one.length, other.length); n++) {
    if (one[n] !== "*" && other[n] !== "*" && String(one[n]) !== String(other[n])) return false;
  }
  return true;
}

// Controls, characters that change the order of text, and invisible ones; joiners stay: scripts and emoji need them.
const UNSEEN_CHARACTERS = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f" +
    "\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\u{e0000}-\\u{e0fff}]",
  "gu",
);

// Returns a text with control, bidirectional and invisible characters escaped.
export const plain = (text) =>
  text.replace(UNSEEN_CHARACTERS, (char) => {
    const code = char.codePointAt(0).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
  });

// Whether a value is a placeholder for a secret.
export const isSealed = (value) => typeof value === "string" && /^\[sealed k:[^\]]*\]$/.test(value);

// What is no variable: a loop's YIELD, a sub-plan's RETURN, the time, a call whose result nobody stores.
const NAMELESS = new Set(["YIELD", "RETURN", "now()", "result", "condition"]);

const ORIGINS = { plan: "in the plan", edit: "edited", input: "input" };

// The origin of a write that no step data.
export const origin = (write) => ORIGINS[write.made] || "before";

// Returns a value on one line, truncated.
export function preview(value, most = 120) {
  if (value === undefined) return "–";
  if (value instanceof Exact) return value.text;
  if (isSealed(value)) return value;
  let text;
  if (Array.isArray(value))
    text = `[${joined(
      value.map((each) => () => preview(each, most)),
      most,
    )}]`;
  else if (value !== null && typeof value === "object") {
    text = `{${joined(
      Object.entries(value).map(
        ([key, each]) =>
          () =>
            `${JSON.stringify(key)}: ${preview(each, most)}`,
      ),
      most,
    )}}`;
  } else text = plain(JSON.stringify(value));
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

function joined(parts, most) {
  let text = "";
  for (const part of parts) {
    if (text.length > most) return `${text}…`;
    text += (text ? ", " : "") + part();
  }
  return text;
}
