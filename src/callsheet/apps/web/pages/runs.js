// All runs, the newest first, as they stand now; what waits for people is told above them.
import { useEffect, useState } from "preact/hooks";
import { Status, html } from "../../viewer/ui.js";
import { into } from "../../viewer/doing.js";
import { ask } from "./session.js";
import { EXAMPLE } from "./example.js";
import { draft } from "./draft.js";
import { go } from "./route.js";

const MOST = 100; // so many are asked for at once
const EVERY = 1500; // milliseconds from one look to the next
const REST = 4; // and so many times what a look takes, where that is longer
const PAUSE = 200; // milliseconds without a key, then the server is asked for runs with the text
const SHAPES = {
  done: "ok",
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
const WORDS = { in_doubt: "in doubt", waiting: "waits for a person" };
const said = (status) => WORDS[status] || status;

export function Runs() {
  const [known, setKnown] = useState(null); // all that have been given, by their ids
  const [told, setTold] = useState(null); // the text that they have all in them
  const [isMore, setMore] = useState(false); // whether there are older ones
  const [asks, setAsks] = useState([]);
  const [status, setStatus] = useState("");
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const wanted = text.trim().toLowerCase();
  useEffect(() => setKnown(null), [status]);
  useEffect(() => {
    let timer = 0;
    let isGone = false;
    let isFirst = true;
    const look = async () => {
      const began = Date.now();
      if (!document.hidden) {
        try {
          const [given, inbox] = await Promise.all([ask(address(status, wanted)), ask("/v1/inbox")]);
          if (isGone) return;
          const isNew = isFirst;
          isFirst = false;
          if (isNew) {
            setMore(given.more);
            setTold(wanted);
          }
          setKnown((before) => renewed(isNew ? null : before, given.runs, given.more));
          setAsks(inbox.asks);
          setWrong("");
        } catch (error) {
          if (!isGone) setWrong(error.message);
        }
      }
      if (!isGone) timer = setTimeout(look, Math.max(EVERY, REST * (Date.now() - began)));
    };
    timer = setTimeout(look, wanted ? PAUSE : 0);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [status, wanted]);
  const rows = known && [...known.values()].sort(newestFirst);
  const older = async () => {
    try {
      const { runs, more } = await ask(address(status, wanted, rows[rows.length - 1].run_id));
      setKnown((before) => new Map([...before, ...runs.map((run) => [run.run_id, run])]));
      setMore(more);
    } catch (error) {
      setWrong(error.message);
    }
  };
  // until the server has answered, those of the ones that are there
  const has = (run) => `${run.run_id} ${run.plan} ${run.status} ${said(run.status)}`.toLowerCase().includes(wanted);
  const isAnswered = rows && told === wanted;
  const shown = isAnswered ? rows : (rows || []).filter(has);
  if (isAnswered && !rows.length && !status && !wanted) return html`<${Empty} />`;
  return html`<main class="sheet">
    <div class="head-line">
      <h1>Runs</h1>
      <label class="only-read" for="filter">Filter by text</label>
      <input id="filter" type="search" placeholder="filter  /" value=${text} onInput=${into(setText)} />
      <label>status <select value=${status} onChange=${into(setStatus)}>
        <option value="">all</option>
        ${STATUSES.map((name) => html`<option key=${name} value=${name}>${said(name)}</option>`)}
      </select></label>
      <span class="quiet" role="status">${isAnswered ? `${rows.length}${isMore ? "+" : ""} run${rows.length === 1 ? "" : "s"}` : "looking …"}</span>
    </div>
    ${wrong ? html`<p class="why is-failed" role="alert">${wrong}</p>` : ""}
    ${asks.length ? html`<${Asks} asks=${asks} />` : ""}
    <ul class="runs">${shown.map((run) => html`<${Row} key=${run.run_id} run=${run} />`)}</ul>
    ${isAnswered && rows.length && isMore ? html`<button class="plain older" data-row onClick=${older}>Older runs</button>` : ""}
    ${isAnswered && !shown.length ? html`<p class="quiet pad">No run is like that.</p>` : ""}
  </main>`;
}

const address = (status, text, before) =>
  `/v1/runs?${new URLSearchParams({
    limit: MOST,
    ...(status && { status }),
    ...(text && { text }),
    ...(before && { before }),
  })}`;

const newestFirst = (one, other) => (one.created < other.created ? 1 : one.created > other.created ? -1 : 0);

// What is known with the newest as they are now: one of their time that is not among them is gone, or is another now.
function renewed(before, runs, isMore) {
  const fresh = new Map(runs.map((run) => [run.run_id, run]));
  const last = isMore ? runs[runs.length - 1].created : "";
  const kept = before ? [...before].filter(([id, run]) => run.created <= last && !fresh.has(id)) : [];
  return new Map([...fresh, ...kept]);
}

function Row({ run }) {
  const shape = SHAPES[run.status] || "open";
  return html`<li>
    <a class="run" data-row href=${`#run=${run.run_id}`}>
      <span class=${`state is-${shape}`}><${Status} of=${shape} words=${false} /> ${said(run.status)}</span>
      <b>${run.plan}</b>
      <code>${run.run_id}</code>
      <span class="quiet">${run.events} events${run.parent ? ` · from ${run.parent}` : ""}</span>
      <time class="quiet" datetime=${run.created}>${run.created.replace("T", " ").slice(0, 19)}</time>
    </a>
  </li>`;
}

function Asks({ asks }) {
  return html`<section class="asks" aria-label="What waits for people">
    ${asks.slice(0, 5).map(
      (each) => html`<p key=${each.run_id + each.key}>
        <span class="warn" aria-hidden="true">◔</span>${" "}
        ${each.kind === "approval" ? `May @${each.tool} be called?` : each.prompt}${" "}
        <a href=${`#run=${each.run_id}&below=waits`}>${each.run_id}</a>
      </p>`,
    )}
    ${asks.length > 5 ? html`<p class="quiet">and ${asks.length - 5} more</p>` : ""}
  </section>`;
}

// The first page of somebody who has run nothing yet.
function Empty() {
  const open = () => {
    draft.value = { text: EXAMPLE, inputs: {} };
    go("plan");
  };
  return html`<main class="sheet empty">
    <h1>Nothing has run yet</h1>
    <p>A plan is a text of steps: which tool, with what, and where its result goes. It is checked before it runs, and its
    journal tells afterwards where every value came from.</p>
    <p><button class="plain strong" onClick=${open}>Open the example plan</button>
      ${" "}<a href="#plan">or write your own</a></p>
    <pre class="sample">${EXAMPLE}</pre>
  </main>`;
}
