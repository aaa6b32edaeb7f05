// The plan editor: a text, what is wrong with it as it is typed, and what can be done with it.
import { useEffect, useRef, useState } from "preact/hooks";
import { Tabs, html } from "../../viewer/ui.js";
import { Wrong, into, typed, useDoing } from "../../viewer/doing.js";
import { ask } from "./session.js";
import { draft } from "./draft.js";
import { go } from "./route.js";
import { TextWithMarks } from "./textarea.js";
import { Findings, fixed } from "./diagnostics.js";
import { Goal } from "./goal.js";
import { Dry, Proof, Whose } from "./answers.js";
import { Drawing } from "./drawing.js";

const PAUSE = 250; // milliseconds without a key, then the text is checked

export function Editor({ id }) {
  const [checked, setChecked] = useState(null);
  const [tab, setTab] = useState("findings");
  const [wrong, isBusy, act] = useDoing();
  const [refusal, setRefusal] = useState([]); // what spoke against a run, a proof, a format
  const [answer, setAnswer] = useState(null); // of the last thing that was asked: { name, data, of: the text }
  const [under, setUnder] = useState({}); // the policy that it is proved under
  const box = useRef(null);
  const { text, inputs } = draft.value;
  const setText = (changed) => {
    draft.value = { ...draft.value, text: changed };
    setRefusal([]);
  };
  const setInputs = (changed) => (draft.value = { ...draft.value, inputs: changed });
  useStored(id, act);
  useChecked(text, inputs, setChecked);

  const given = () => Object.fromEntries(Object.entries(inputs).map(([name, said]) => [name, typed(said)]));
  const names = Object.keys(inputs);
  const doing = (something) =>
    act(async () => {
      setRefusal([]);
      try {
        await something();
      } catch (error) {
        setRefusal(error.diagnostics || []);
        if (error.diagnostics && error.diagnostics.length) setTab("findings");
        throw error;
      }
    });
  const run = () =>
    doing(async () => {
      const { run_id } = await ask("/v1/runs", { body: { plan: text, name: id || goalOf(text), inputs: given() } });
      await go(`run=${run_id}`);
    });
  const format = () =>
    doing(async () => {
      const made = await ask("/v1/format", { body: { plan: text } });
      if (made.text !== null) setText(made.text);
      else setRefusal(made.diagnostics);
    });
  const picture = () => setTab("picture");
  const dry = () => look("dry", "/v1/dry-run", { inputs: given() });
  const verify = () => look("proof", "/v1/verify", { inputs: names, ...under });
  const look = (name, path, body) =>
    doing(async () => {
      setAnswer({ name, data: await ask(path, { body: { plan: text, ...body } }), of: text });
      setTab(name);
    });
  const onKeyDown = (event) => {
    if (!(event.ctrlKey || event.metaKey)) return;
    if (event.key === "Enter") isBusy || !text.trim() || run();
    else if (event.key === "s") document.getElementById("save-id").focus();
    else return;
    event.preventDefault();
  };
  // a finding of the text as it was before has its place there
  const repair = (fix) => (refusal.length || (checked && checked.of === text)) && setText(fixed(text, fix));
  const found = refusal.length ? refusal : checked ? checked.diagnostics : [];
  const unset = found.filter((each) => each.code === "CHK001").map((each) => /\$(\w+)/.exec(each.message)?.[1]);
  return html`<main class="sheet editor" onKeyDown=${onKeyDown}>
    <div class="head-line">
      <h1>${id || "New plan"}</h1>
      <button class="plain strong" disabled=${isBusy || !text.trim()} onClick=${run} title="Ctrl Enter">► Run</button>
      <button class="plain" disabled=${isBusy} onClick=${format}>Format</button>
      <button class="plain" onClick=${picture}>Picture</button>
      <button class="plain" disabled=${isBusy} onClick=${dry}>Dry run</button>
      <${Verify} isBusy=${isBusy} onPolicy=${setUnder} onPick=${verify} />
      <${Save} text=${text} id=${id} />
      <${Verdict} checked=${checked} text=${text} />
    </div>
    ${id ? "" : html`<${Goal} onPlan=${setText} />`}
    <${Wrong} said=${wrong} />
    <div class="desk">
      <${TextWithMarks} box=${box} text=${text} marks=${found} onText=${setText} />
      <section class="panel beside" aria-label="What is known of it">
        <${Tabs} id="known" label="What is known of it" current=${tab} onPick=${setTab} tabs=${[
          ["findings", html`Findings${found.length ? html` <small>${found.length}</small>` : ""}`],
          ["inputs", html`Variables${names.length ? html` <small>${names.length}</small>` : ""}`],
          ["picture", "Picture"],
          ["dry", "Dry run"],
          ["proof", "Proof"],
        ]} />
        <div class="tab-body" id="known-panel" role="tabpanel" aria-labelledby=${`known-tab-${tab}`} tabindex="0">
          ${answer && answer.name === tab && answer.of !== text ? html`
            <p class="notice" role="status">Of the text as it was before: ask again.</p>` : ""}
          ${tab === "findings" ? html`<${Findings} rows=${found} text=${text} box=${box} onFix=${repair} />` : ""}
          ${tab === "inputs" ? html`<${Inputs} inputs=${inputs} unset=${unset} onChange=${setInputs} />` : ""}
          ${tab === "picture" ? html`<${Drawing} text=${text} checked=${checked} box=${box} />` : ""}
          ${tab === "dry" ? html`<${Dry} told=${told(answer, "dry")} />` : ""}
          ${tab === "proof" ? html`<${Proof} told=${told(answer, "proof")}
            text=${answer ? answer.of : text} box=${box} /><${Whose} key=${text} text=${text} inputs=${names}
            policy=${under} />` : ""}
        </div>
      </section>
    </div>
  </main>`;
}

// What a plan that has no name is called: what it is for.
const goalOf = (text) => (/^#\s*goal:\s*(.+)$/m.exec(text)?.[1] || "plan").trim().slice(0, 80);

const told = (answer, name) => (answer && answer.name === name ? answer.data : null);

// The text of a plan of the library, when the page of that plan is opened.
function useStored(id, act) {
  useEffect(() => {
    if (!id) return undefined;
    let isGone = false; // another plan has been opened
    act(async () => {
      const stored = await ask(`/v1/plans/${encodeURIComponent(id)}`);
      const defaults = stored.params.map((param) => [
        param.name,
        param.default === undefined || param.default === null ? "" : JSON.stringify(param.default),
      ]);
      if (!isGone) draft.value = { text: stored.text, inputs: Object.fromEntries(defaults) };
    });
    return () => {
      isGone = true;
    };
  }, [id]);
}

// What is wrong with the text, a moment after it was changed.
function useChecked(text, inputs, setChecked) {
  const names = Object.keys(inputs).join(" ");
  useEffect(() => {
    if (!text.trim()) {
      setChecked(null);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const body = { plan: text, inputs: names ? names.split(" ") : [], servers: false };
      try {
        setChecked({ ...(await ask("/v1/validate", { body, signal: abort.signal })), of: text });
      } catch (error) {
        if (error.name === "AbortError") return;
        setChecked({ ok: false, diagnostics: error.diagnostics || [], why: error.message, of: text });
      }
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, names]);
}

function Verdict({ checked, text }) {
  if (!text.trim()) return html`<span class="quiet" role="status">a plan is a text of steps</span>`;
  if (!checked || checked.of !== text) return html`<span class="quiet" role="status">checking …</span>`;
  if (checked.why) return html`<span class="status is-failed" role="status">✗ ${checked.why}</span>`;
  return checked.ok
    ? html`<span class="status is-ok" role="status">✓ ready to run, ${checked.steps} steps</span>`
    : html`<span class="status is-failed" role="status">✗ it cannot run yet</span>`;
}

// Under which policy the text is proved: the one in force, or where there is none a shipped one.
function Verify({ isBusy, onPick, onPolicy }) {
  const [policies, setPolicies] = useState({ in_force: null, shipped: [] });
  const [policy, setPolicy] = useState("");
  const pick = (name) => {
    setPolicy(name);
    onPolicy(name ? { policy: name } : {});
  };
  useEffect(() => {
    ask("/v1/policy").then(
      (told) => {
        setPolicies(told);
        if (!told.in_force) pick(told.shipped[0]);
      },
      () => undefined,
    );
  }, []);
  return html`<span class="joined">
    <button class="plain" disabled=${isBusy} onClick=${onPick}>Verify</button>
    <label class="only-read" for="policy">Policy</label>
    <select id="policy" value=${policy} onChange=${into(pick)}>
      ${policies.in_force
        ? html`<option value="">${policies.in_force.name} (in force)</option>`
        : policies.shipped.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select>
  </span>`;
}

function Save({ text, id }) {
  const [name, setName] = useState(id);
  const [said, setSaid] = useState("");
  const [isThere, setThere] = useState(false); // whether another plan has that name
  const [wrong, isBusy, act] = useDoing();
  const rename = (to) => {
    setName(to);
    setThere(false);
  };
  const save = (event) => {
    event.preventDefault();
    act(async () => {
      setSaid("");
      const body = { plan: text, replace: isThere || name === id };
      try {
        const stored = await ask(`/v1/plans/${encodeURIComponent(name)}`, { method: "PUT", body });
        setSaid(`saved as ${stored.id}`);
        setThere(false);
      } catch (error) {
        setThere(error.status === 409);
        throw error;
      }
    });
  };
  return html`<form class="joined" onSubmit=${save}>
    <label class="only-read" for="save-id">Name to save it under</label>
    <input id="save-id" size="14" placeholder="name" pattern="[a-z0-9][a-z0-9._\\-]{0,63}" required value=${name}
      title="a to z, 0 to 9, and . _ -" onInput=${into(rename)} />
    <button class="plain" disabled=${isBusy || !text.trim()}>${isThere ? "Replace it" : "Save"}</button>
    <span class=${wrong ? "warn" : "quiet"} role="status">${wrong || said}</span>
  </form>`;
}

// What the run is given: a row for each variable, and those that the plan reads and nothing sets.
function Inputs({ inputs, unset, onChange }) {
  const [name, setName] = useState("");
  const missing = [...new Set(unset)].filter((each) => each && !(each in inputs));
  const add = (event) => {
    event.preventDefault();
    if (name) onChange({ ...inputs, [name]: "" });
    setName("");
  };
  const more = (each) => html`
    <button class="plain" key=${each} onClick=${() => onChange({ ...inputs, [each]: "" })}>+ $${each}</button> `;
  const without = (gone) => Object.fromEntries(Object.entries(inputs).filter(([each]) => each !== gone));
  return html`<div class="pad inputs">
    <p class="quiet">What the run is given: a text, or JSON such as <code>12</code> or <code>["a", "b"]</code>.</p>
    ${missing.length ? html`<p>The plan reads and nothing sets ${missing.map(more)}</p>` : ""}
    ${Object.entries(inputs).map(
      ([each, value]) => html`<p class="input" key=${each}>
        <label for=${`input-${each}`}>$${each}</label>
        <input id=${`input-${each}`} value=${value} onInput=${into((said) => onChange({ ...inputs, [each]: said }))} />
        <button class="plain" aria-label=${`Remove $${each}`} onClick=${() => onChange(without(each))}>✕</button>
      </p>`,
    )}
    <form class="input" onSubmit=${add}>
      <label for="input-new">new</label>
      <input id="input-new" placeholder="name" pattern="[A-Za-z_][A-Za-z0-9_]*" value=${name}
        onInput=${into(setName)} />
      <button class="plain">Add</button>
    </form>
  </div>`;
}
