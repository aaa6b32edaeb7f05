// The list of runs, newest first, and the open questions to people. It is refreshed while the page is visible.
import { useEffect, useState } from "preact/hooks";
import { Moment, Status, html } from "../../viewer/ui.js";
import { into } from "../../viewer/actions.js";
import { request } from "./session.js";
import { EXAMPLE } from "./example.js";
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
  running: "open",
  queued: "pending",
  waiting: "open",
  in_doubt: "stopped",
};
const STATUSES = Object.keys(SHAPES).sort();
const WORDS = { done_with_failures: "done with failures", in_doubt: "in doubt", waiting: "waits for a person" };
const statusText = (status) => WORDS[status] || status;

export function Runs() {
  const [known, setKnown] = useState(null); // the loaded runs, by id
  const [searched, setSearched] = useState(null); // the text that all loaded runs contain
  const [isMore, setMore] = useState(false); // whether there are older runs
  const [asks, setAsks] = useState([]); // open questions, then calls in doubt
  const [status, setStatus] = useState("");
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const wanted = text.trim().toLowerCase();
  useEffect(() => setKnown(null), [status]);
  useEffect(() => {
    let timer = 0;
    let isGone = false;
    let isFirst = true;
    const refresh = async () => {
      const began = Date.now();
      if (!document.hidden) {
        try {
          const [page, inbox] = await Promise.all([request(address(status, wanted)), request("/v1/inbox")]);
          if (isGone) return;
          const isNew = isFirst;
          isFirst = false;
          if (isNew) {
            setMore(page.more);
            setSearched(wanted);
          }
          setKnown((before) => merged(isNew ? null : before, page.runs, page.more));
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
  }, [status, wanted]);
  const rows = known && [...known.values()].sort(newestFirst);
  const older = async () => {
    try {
      const { runs, more } = await request(address(status, wanted, rows[rows.length - 1].run_id));
      setKnown((before) => new Map([...before, ...runs.map((run) => [run.run_id, run])]));
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
    setText("");
    event.currentTarget.blur();
  };
  const isAnswered = rows && searched === wanted;
  const shown = isAnswered ? rows : (rows || []).filter(has);
  if (isAnswered && !rows.length && !status && !wanted) return html`<${Empty} />`;
  return html`<main class="sheet">
    <div class="head-line">
      <h1>Runs</h1>
      <label class="only-read" for="filter">Filter by text</label>
      <input id="filter" type="search" placeholder="filter  /" value=${text} onInput=${into(setText)}
        onKeyDown=${onFilterKey} />
      <label>status <select value=${status} onChange=${into(setStatus)}>
        <option value="">all</option>
        ${STATUSES.map((name) => html`<option key=${name} value=${name}>${statusText(name)}</option>`)}
      </select></label>
      <span class="quiet" role="status">${isAnswered ? `${rows.length}${isMore ? "+" : ""} run${rows.length === 1 ? "" : "s"}` : "loading …"}</span>
    </div>
    ${problem ? html`<p class="why is-failed" role="alert">${problem}</p>` : ""}
    ${asks.length ? html`<${Asks} asks=${asks} />` : ""}
    <ul class="runs">${shown.map((run) => html`<${Row} key=${run.run_id} run=${run} />`)}</ul>
    ${isAnswered && rows.length && isMore ? html`<button class="plain older" data-row onClick=${older}>Older runs</button>` : ""}
    ${isAnswered && !shown.length ? html`<p class="quiet pad">No runs found.</p>` : ""}
  </main>`;
}

const address = (status, text, before) =>
  `/v1/runs?${new URLSearchParams({
    limit: PAGE_SIZE,
    ...(status && { status }),
    ...(text && { text }),
    ...(before && { before }),
  })}`;

const newestFirst = (one, other) => (one.created < other.created ? 1 : one.created > other.created ? -1 : 0);

// Merges new rows into the loaded ones. A loaded run in the time range of the new rows that is not among them was
// deleted, or no longer matches.
function merged(before, runs, isMore) {
  const fresh = new Map(runs.map((run) => [run.run_id, run]));
  const last = isMore ? runs[runs.length - 1].created : "";
  const kept = before ? [...before].filter(([id, run]) => run.created <= last && !fresh.has(id)) : [];
  return new Map([...fresh, ...kept]);
}

function Row({ run }) {
  const shape = SHAPES[run.outcome] || "open";
  return html`<li>
    <a class="run" data-row href=${`#run=${run.run_id}`}>
      <span class=${`state is-${shape}`}><${Status} of=${shape} words=${false} /> ${statusText(run.outcome)}</span>
      <b>${run.plan}</b>
      <code>${run.run_id}</code>
      <span class="quiet">${run.events} events${run.parent ? ` · from ${run.parent}` : ""}</span>
      <${Moment} class="quiet" at=${Date.parse(run.created) / 1000} />
    </a>
  </li>`;
}

function asked({ kind, tool, prompt }) {
  if (kind === "doubt") return `Did @${tool} take place? It gave no answer.`;
  return kind === "approval" ? `May @${tool} be called?` : prompt;
}

function Asks({ asks }) {
  return html`<section class="asks" aria-label="Open questions">
    ${asks.slice(0, 5).map(
      (each) => html`<p key=${each.run_id + each.key}>
        <span class="warn" aria-hidden="true">◔</span>${" "}
        ${asked(each)}${" "}
        <a href=${`#run=${each.run_id}&below=waits`}>${each.run_id}</a>
      </p>`,
    )}
    ${asks.length > 5 ? html`<p class="quiet">and ${asks.length - 5} more</p>` : ""}
  </section>`;
}

// The page for an empty journal.
function Empty() {
  const open = () => {
    draft.value = { text: EXAMPLE, inputs: {} };
    go("plan");
  };
  return html`<main class="sheet empty">
    <h1>No runs yet</h1>
    <p>A plan is a text of steps: each calls a tool with arguments and stores the result. It is checked before it runs,
    and its journal records the origin of every value.</p>
    <p><button class="plain strong" onClick=${open}>Open the example plan</button>
      ${" "}<a href="#plan">or write your own</a></p>
    <pre class="sample">${EXAMPLE}</pre>
  </main>`;
}
