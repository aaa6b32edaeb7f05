// The list of runs, filtered, sorted and counted, actions on many of them, and the open questions to people. It is
// refreshed while the page is visible.
import { useEffect, useState } from "preact/hooks";
import { Dialog, Moment, Status, counted, duration, html } from "../../viewer/ui.js";
import { ErrorMessage, into, useAction } from "../../viewer/actions.js";
import { request } from "./session.js";
import { EXAMPLES } from "./example.js";
import { draft } from "./draft.js";
import { go } from "./route.js";

const PAGE_SIZE = 100; // the number of runs per request
const INTERVAL = 1500; // the refresh interval, in milliseconds
const LOAD_FACTOR = 4; // the interval is at least this multiple of the time of a request
const SEARCH_DELAY = 200; // the pause in typing before the server is searched, in milliseconds
const SHAPES = {
  done: "ok",
  done_with_failures: "partial",
  failed: "failed",
  refused: "failed",
  corrupt: "failed",
  cancelled: "stopped",
  interrupted: "stopped",
  paused: "stopped",
  running: "open",
  queued: "pending",
  waiting: "open",
  in_doubt: "stopped",
};
const STATUSES = Object.keys(SHAPES).sort();
const WORDS = { done_with_failures: "done with failures", in_doubt: "in doubt", waiting: "waits for a person" };
const statusText = (status) => WORDS[status] || status;

// The conditions of the list are in the address, so that a view can be saved, sent and gone back to.
const FIELDS = {
  plan: ["plan", "part of its name"],
  goal: ["goal", "part of its text"],
  plan_hash: ["version", "hash of the plan"],
  tag: ["tag", "env=prod"],
  failed_step: ["first failed step", "S3"],
  waits_for: ["waits for", "SEND"],
  since: ["started since", "2026-01-31, 2d or today"],
  until: ["started before", "2026-01-31, 2d or today"],
  ended_since: ["ended since", "2026-01-31, 2d or today"],
  ended_until: ["ended before", "2026-01-31, 2d or today"],
};
const NUMBERS = {
  least_cost: "least cost",
  most_cost: "highest cost",
  least_tokens: "least tokens",
  most_tokens: "most tokens",
};
const MORE = [...Object.keys(FIELDS), ...Object.keys(NUMBERS), "sort"];
const FILTERS = ["status", "text", ...MORE];
// times of the start, each with what it means for `since` and `until`
const TIMES = {
  "1h ": "the last hour",
  "today ": "today",
  "yesterday today": "yesterday",
  "1d ": "the last day",
  "7d ": "the last week",
  "30d ": "the last 30 days",
};
const SORTS = { ended: "end", duration: "duration", cost: "cost", tokens: "tokens" };

const OWN_TIME = "own";
const timeOf = ({ since, until }) => {
  const given = `${since} ${until}`;
  return given === " " || given in TIMES ? given : OWN_TIME;
};

function fromAddress() {
  const params = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(FILTERS.map((name) => [name, params.get(name) || ""]));
}

function intoAddress(view) {
  const given = Object.entries(view).filter(([, value]) => value);
  const query = given.length ? `&${new URLSearchParams(given)}` : "";
  history.replaceState(history.state, "", `#runs${query}`);
}

export function Runs() {
  const [known, setKnown] = useState(null); // the loaded runs, by id
  const [order, setOrder] = useState([]); // the ids as the server sorts them
  const [searched, setSearched] = useState(null); // the view that all loaded runs are of
  const [isMore, setMore] = useState(false); // whether there are older runs
  const [counts, setCounts] = useState({}); // how many runs fit, by outcome
  const [asks, setAsks] = useState([]); // open questions, then calls in doubt
  const [view, setView] = useState(fromAddress);
  const [chosen, setChosen] = useState(new Set()); // the ids of the runs that an action is for
  const [bulk, setBulk] = useState(null); // the action that is asked about
  const [problem, setProblem] = useState("");
  const [turn, setTurn] = useState(0);
  const change = (changes) => setView((before) => ({ ...before, ...changes }));
  const wanted = view.text.trim().toLowerCase();
  const query = JSON.stringify({ ...view, text: wanted });
  useEffect(() => intoAddress(view), [view]);
  useEffect(() => {
    const read = () => location.hash.startsWith("#runs") && setView(fromAddress());
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  useEffect(() => setKnown(null), [JSON.stringify({ ...view, text: "" })]);
  useEffect(() => {
    let timer = 0;
    let isGone = false;
    let isFirst = true;
    const refresh = async () => {
      const began = Date.now();
      if (!document.hidden) {
        try {
          const [page, inbox] = await Promise.all([
            request(address({ ...view, text: wanted, count: true })),
            request("/v1/inbox"),
          ]);
          if (isGone) return;
          const isNew = isFirst;
          isFirst = false;
          const ids = page.runs.map((run) => run.run_id);
          if (isNew) {
            setMore(page.more);
            setSearched(query);
            setOrder(ids);
          } else {
            setOrder((before) => (before.length > PAGE_SIZE ? before : ids));
          }
          setCounts(page.counts);
          setKnown((before) => merged(isNew ? null : before, page.runs, page.more && !view.sort));
          setAsks([...inbox.asks, ...inbox.in_doubt]);
          setProblem("");
        } catch (error) {
          if (!isGone) setProblem(error.message);
        }
      }
      if (!isGone) timer = setTimeout(refresh, Math.max(INTERVAL, LOAD_FACTOR * (Date.now() - began)));
    };
    timer = setTimeout(refresh, wanted ? SEARCH_DELAY : 0);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [query, turn]);
  const rows =
    known && (view.sort ? order.map((id) => known.get(id)).filter(Boolean) : [...known.values()].sort(newestFirst));
  const older = async () => {
    try {
      const before = rows[rows.length - 1].run_id;
      const { runs, more } = await request(address({ ...view, text: wanted, before }));
      setKnown((loaded) => new Map([...loaded, ...runs.map((run) => [run.run_id, run])]));
      setOrder((ids) => [...ids, ...runs.map((run) => run.run_id)]);
      setMore(more);
    } catch (error) {
      setProblem(error.message);
    }
  };
  // until the server has answered, the loaded runs are filtered
  const has = (run) => `${run.run_id} ${run.plan} ${run.outcome} ${statusText(run.outcome)}`.toLowerCase().includes(wanted);
  const onFilterKey = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // the browser would only empty it
    change({ text: "" });
    event.currentTarget.blur();
  };
  const isAnswered = rows && searched === query;
  const shown = isAnswered ? rows : (rows || []).filter(has);
  const isAll = FILTERS.every((name) => name === "sort" || !view[name]);
  if (isAnswered && !rows.length && isAll) return html`<${Empty} />`;
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const time = timeOf(view);
  const started = (value) => {
    const [since, until] = value.split(" ");
    change({ since, until });
  };
  const toggle = (id) =>
    setChosen((before) => {
      const after = new Set(before);
      if (!after.delete(id)) after.add(id);
      return after;
    });
  const done = () => {
    setBulk(null);
    setChosen(new Set());
    setTurn((before) => before + 1);
  };
  return html`<main class="sheet">
    <div class="head-line">
      <h1>Runs</h1>
      <label class="only-read" for="filter">Filter by text</label>
      <input id="filter" type="search" placeholder="filter  /" value=${view.text}
        onInput=${into((text) => change({ text }))} onKeyDown=${onFilterKey} />
      <label>status <select value=${view.status} onChange=${into((status) => change({ status }))}>
        <option value="">all</option>
        ${STATUSES.map((name) => html`<option key=${name} value=${name}>${statusText(name)}</option>`)}
      </select></label>
      <label>started <select value=${time} onChange=${into(started)}>
        <option value=" ">at any time</option>
        ${Object.entries(TIMES).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
        ${time === OWN_TIME ? html`<option value=${OWN_TIME}>as filtered below</option>` : ""}
      </select></label>
      <span class="quiet" role="status">${isAnswered ? counted(total, "run") : "loading …"}</span>
    </div>
    <${Filters} view=${view} change=${change} />
    ${isAnswered && total ? html`<${Counts} counts=${counts} status=${view.status} change=${change} />` : ""}
    ${problem ? html`<p class="why is-failed" role="alert">${problem}</p>` : ""}
    ${asks.length ? html`<${Asks} asks=${asks} />` : ""}
    ${isAnswered && rows.length ? html`<${Choice} chosen=${chosen} total=${total} setChosen=${setChosen} rows=${rows}
      isAll=${isAll} onAction=${(action, isWhole) => setBulk({ action, isWhole })} />` : ""}
    <ul class="runs">${shown.map(
      (run) => html`<${Row} key=${run.run_id} run=${run} isChosen=${chosen.has(run.run_id)} onChoose=${toggle} />`,
    )}</ul>
    ${isAnswered && rows.length && isMore ? html`<button class="plain older" data-row onClick=${older}>${view.sort ? "More" : "Older"} runs</button>` : ""}
    ${isAnswered && !shown.length ? html`<p class="quiet pad">No runs found.</p>` : ""}
    ${bulk ? html`<${Bulk} ...${bulk} ids=${[...chosen]} where=${{ ...where(view), ...(wanted && { text: wanted }) }}
      onDone=${done} onClose=${() => setBulk(null)} />` : ""}
  </main>`;
}

// The conditions of a view, as the API has them.
const where = ({ sort: _, ...conditions }) => Object.fromEntries(Object.entries(conditions).filter(([, value]) => value));

const address = (view) =>
  `/v1/runs?${new URLSearchParams({ limit: PAGE_SIZE, ...Object.fromEntries(Object.entries(view).filter(([, value]) => value)) })}`;

const newestFirst = (one, other) => (one.created < other.created ? 1 : one.created > other.created ? -1 : 0);

// Merges new rows into the loaded ones. A loaded run in the time range of the new rows that is not among them was
// deleted, or no longer matches.
function merged(before, runs, isMore) {
  const fresh = new Map(runs.map((run) => [run.run_id, run]));
  const last = isMore ? runs[runs.length - 1].created : "";
  const kept = before ? [...before].filter(([id, run]) => run.created <= last && !fresh.has(id)) : [];
  return new Map([...fresh, ...kept]);
}

function Filters({ view, change }) {
  const field = (name, label, more) => html`<label key=${name}>${label} <input value=${view[name]} ...${more}
    onChange=${into((value) => change({ [name]: value.trim() }))} /></label>`;
  const choice = (name, label, all, options) => html`<label>${label} <select value=${view[name]}
    onChange=${into((value) => change({ [name]: value }))}>
    <option value="">${all}</option>
    ${Object.entries(options).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
  </select></label>`;
  const given = MORE.filter((name) => view[name]).length;
  return html`<details class="filters" open=${given > 0}>
    <summary>More filters${given ? ` (${given})` : ""}</summary>
    <div class="filter-fields">
      ${Object.entries(FIELDS).map(([name, [label, placeholder]]) => field(name, label, { placeholder }))}
      ${Object.entries(NUMBERS).map(([name, label]) => field(name, label, { type: "number", min: 0, step: "any" }))}
      ${choice("sort", "sorted by", "start", SORTS)}
      ${given ? html`<button class="plain" onClick=${() => change(Object.fromEntries(MORE.map((name) => [name, ""])))}>Clear</button>` : ""}
    </div>
  </details>`;
}

function Counts({ counts, status, change }) {
  return html`<p class="counts" role="group" aria-label="Runs by outcome">${Object.entries(counts).map(
    ([outcome, count]) => html`<button key=${outcome} class=${`plain state is-${SHAPES[outcome] || "open"}`}
      aria-pressed=${status === outcome} onClick=${() => change({ status: status === outcome ? "" : outcome })}>
      ${count.toLocaleString("en")} ${statusText(outcome)}</button>`,
  )}</p>`;
}

const ACTIONS = { cancel: "Cancel", pause: "Pause", resume: "Resume", rerun: "Run again", delete: "Delete" };

function Choice({ chosen, total, rows, setChosen, isAll, onAction }) {
  const isWhole = !chosen.size;
  if (isWhole && isAll) return "";
  const what = isWhole ? `all ${total.toLocaleString("en")} that fit` : counted(chosen.size, "chosen run");
  return html`<div class="choice" role="group" aria-label="Actions on many runs">
    <span>${what}:</span>
    ${Object.entries(ACTIONS).map(
      ([action, word]) => html`<button key=${action} class="plain" onClick=${() => onAction(action, isWhole)}>${word} …</button>`,
    )}
    ${chosen.size === 2 ? html`<button class="plain" onClick=${() => compare(rows, chosen)}>Compare</button>` : ""}
    <button class="plain" onClick=${() => setChosen(new Set(rows.map((run) => run.run_id)))}>Choose all shown</button>
    ${isWhole ? "" : html`<button class="plain" onClick=${() => setChosen(new Set())}>Choose none</button>`}
  </div>`;
}

// Goes to the differences between two runs, the earlier one first.
function compare(rows, chosen) {
  const [other, run] = rows.map((row) => row.run_id).filter((id) => chosen.has(id));
  return go(`run=${run}&other=${other}&below=diff`);
}

const MOST_CHOSEN = 1000; // as many as the server takes at once

// Shows what an action would do, then does it to exactly these runs.
function Bulk({ action, isWhole, ids, where, onDone, onClose }) {
  const which = isWhole ? { where } : { run_ids: ids.slice(0, MOST_CHOSEN) };
  const [found, setFound] = useState(null);
  const [effects, setEffects] = useState(false);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    request("/v1/bulk", { body: { action, ...which } }).then(setFound, (problem) => setError(problem.message));
  }, []);
  const act = async () => {
    setBusy(true);
    try {
      const run_ids = found.runs.map((run) => run.run_id); // other runs may fit by now
      const done = await request("/v1/bulk", { body: { action, run_ids, effects, expected: run_ids.length } });
      if (done.done === found.runs.length) return onDone();
      setFound(done);
    } catch (problem) {
      setError(problem.message);
    }
    setBusy(false);
  };
  const left = found ? Object.entries(Object.groupBy(found.skipped, (each) => each.why)) : [];
  return html`<${Dialog} title=${`${ACTIONS[action]}: chosen runs`} onClose=${onClose}>
    ${error ? html`<p class="why is-failed" role="alert">${error}</p>` : ""}
    ${found === null && !error ? html`<p role="status">looking …</p>` : ""}
    ${found && found.is_preview ? html`<p>${ACTIONS[action]} ${counted(found.runs.length, "run")}?</p>` : ""}
    ${found && !found.is_preview ? html`<p role="status">Done for ${counted(found.done, "run")}.</p>` : ""}
    ${found ? html`<ul class="quiet bulk-runs">${found.runs.slice(0, 8).map(
      (run) => html`<li key=${run.run_id}><code>${run.run_id}</code> ${statusText(run.outcome)}${run.step ? ` · from ${run.step}` : ""}</li>`,
    )}${found.runs.length > 8 ? html`<li>and ${counted(found.runs.length - 8, "more", "more")}</li>` : ""}</ul>` : ""}
    ${left.map(([why, runs]) => html`<p key=${why} class="quiet">${counted(runs.length, "run")} left out: ${why}</p>`)}
    ${found && found.more ? html`<p class="quiet">More runs fit: the newest 1,000 are taken at once.</p>` : ""}
    ${found && found.is_preview && action === "rerun" && found.runs.length ? html`<p><label>
      <input type="checkbox" checked=${effects} onChange=${(event) => setEffects(event.currentTarget.checked)} />
      allow calls that change something outside</label></p>` : ""}
    <p class="joined">
      ${found && found.is_preview && found.runs.length ? html`<button class="plain strong" disabled=${isBusy} onClick=${act}>${ACTIONS[action]}</button>` : ""}
      <button class="plain" onClick=${found && !found.is_preview ? onDone : onClose}>Close</button>
    </p>
  <//>`;
}

function Row({ run, isChosen, onChoose }) {
  const shape = SHAPES[run.outcome] || "open";
  const isStopped = run.outcome === "waiting" || run.outcome === "in_doubt";
  const took = run.ended ? (Date.parse(run.ended) - Date.parse(run.created)) / 1000 : NaN;
  const facts = [
    run.under_way,
    run.failed_step && `failed at ${run.failed_step}`,
    run.pause && run.pause.words,
    isStopped && run.waits_for,
    ...Object.entries(run.tags).map(([name, value]) => `${name}=${value}`),
    run.parent && `from ${run.parent}`,
    took >= 0 && duration(took),
    run.tokens && counted(run.tokens, "token"),
    run.cost && `cost ${Number(run.cost.toPrecision(4))}`,
    `${run.events} events`,
  ].filter(Boolean);
  return html`<li class="run-row">
    <input type="checkbox" class="choose" checked=${isChosen} aria-label=${`Choose run ${run.run_id}`}
      onChange=${() => onChoose(run.run_id)} />
    <a class="run" data-row href=${`#run=${run.run_id}`}>
      <span class=${`state is-${shape}`}><${Status} of=${shape} words=${false} /> ${statusText(run.outcome)}</span>
      <span class="run-plan"><b>${run.plan}</b>${run.goal && run.goal !== run.plan ? html` <span class="quiet">${run.goal}</span>` : ""}</span>
      <code>${run.run_id}</code>
      <span class="quiet" title=${facts.join(" · ")}>${facts.join(" · ")}</span>
      <${Moment} class="quiet" at=${Date.parse(run.created) / 1000} />
    </a>
  </li>`;
}

function asked({ kind, tool, prompt, site }) {
  if (kind === "doubt") return `Did @${tool} take place? It gave no answer.`;
  return kind === "approval" ? `May ${site ? site.tool : `@${tool}`} be called?` : prompt;
}

function Asks({ asks }) {
  return html`<section class="asks" aria-label="Open questions">
    ${asks.slice(0, 5).map(
      (each) => html`<p key=${each.run_id + each.key}>
        <span class="warn" aria-hidden="true">◔</span>${" "}
        ${asked(each)}${" "}
        <a href=${`#run=${each.run_id}&below=waits`}>${each.run_id}</a>${each.role ? ` for the role ${each.role}` : ""}
      </p>`,
    )}
    ${asks.length > 5 ? html`<p class="quiet">and ${asks.length - 5} more</p>` : ""}
  </section>`;
}

// The page for an empty journal: examples to run at once, or to open first.
function Empty() {
  const [problem, isBusy, act] = useAction();
  const open = (text) => {
    draft.value = { text, inputs: {}, terms: null };
    go("plan");
  };
  const run = ({ text, title }) =>
    act(async () => {
      const { run_id } = await request("/v1/runs", { body: { plan: text, name: title, tags: { example: "yes" } } });
      await go(`run=${run_id}`);
    });
  return html`<main class="sheet empty">
    <h1>No runs yet</h1>
    <p>A plan is a text of steps: each calls a tool with arguments and stores the result. It is checked before it runs,
    and its journal records the origin of every value. These examples need no model and no network:</p>
    <${ErrorMessage} text=${problem} />
    <ul class="examples">${EXAMPLES.map(
      (example) => html`<li key=${example.title} class="panel">
        <h2>${example.title}</h2>
        <p class="quiet">${example.about}</p>
        <pre class="sample" tabindex="0" role="region" aria-label=${example.title}>${example.text}</pre>
        <p class="joined"><button class="plain strong" disabled=${isBusy} onClick=${() => run(example)}
            aria-label=${`Run: ${example.title}`}>► Run</button>
          <button class="plain" aria-label=${`Open: ${example.title}`} onClick=${() => open(example.text)}>Open</button></p>
      </li>`,
    )}</ul>
    <p><a href="#plan">Write your own plan</a>, or <a href="#tools">try a tool</a>.</p>
  </main>`;
}
