// The plan editor: a text with its diagnostics, and actions on it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Tabs, html } from "../../viewer/ui.js";
import { ErrorMessage, into, typed, useAction } from "../../viewer/actions.js";
import { Consent } from "../../viewer/branching.js";
import { branch, draftLike, termsOf } from "./again.js";
import { fieldsOf, valuesOf } from "./fields.js";
import { Inputs } from "./inputs.js";
import { request } from "./session.js";
import { draft, draftText } from "./draft.js";
import { go } from "./route.js";
import { PlanText } from "./text.js";
import { Findings, applyFix } from "./diagnostics.js";
import { Goal } from "./goal.js";
import { DataLabels, DryRun, Proof } from "./analysis.js";
import { Drawing } from "./drawing.js";

const UNSET = "CHK001"; // the code of the finding that nothing sets a variable
const OF_INPUTS = ["RUN035", "RUN036", "RUN037"]; // the codes of what is wrong with an input
const variableIn = (finding) => /\$(\w+)/.exec(finding.message)?.[1];
const CHECK_DELAY = 250; // the pause in typing before the text is checked, in milliseconds

export function Editor({ id, like }) {
  const [checked, setChecked] = useState(null);
  const [tab, setTab] = useState("findings");
  const [problem, isBusy, act] = useAction();
  const [refusal, setRefusal] = useState([]); // the diagnostics of a refused action
  const [answer, setAnswer] = useState(null); // the last result: { name, data, of: its text }
  const [policy, setPolicy] = useState({}); // the selected policy, as parameters of requests
  const [secrets, setSecrets] = useState({}); // the texts of secret inputs, which are never stored
  const [problems, setProblems] = useState({}); // what is wrong with which input
  const [effects, setEffects] = useState(null); // calls of a run that keeps others, and a function to confirm them
  const box = useRef(null);
  const { text, inputs, terms } = draft.value;
  const known = useRef(null); // the schema of the inputs of the last text that was a plan
  if (!checked || checked.steps !== undefined) known.current = (checked && checked.inputs) || null;
  const fields = known.current && fieldsOf(known.current);
  const setText = (changed) => {
    draft.value = { ...draft.value, text: changed };
    setRefusal([]);
    setEffects(null);
  };
  const setInputs = (changed) => {
    const hidden = (fields || []).filter((field) => field.isSecret).map((field) => field.name);
    const isHidden = ([name]) => hidden.includes(name);
    setSecrets(Object.fromEntries(Object.entries(changed).filter(isHidden)));
    draft.value = { ...draft.value, inputs: Object.fromEntries(Object.entries(changed).filter((each) => !isHidden(each))) };
    setProblems({});
  };
  useStoredPlan(id, like, act, () => setTab("inputs"));
  // an empty field sets nothing; "" is the empty text
  const given = { ...inputs, ...secrets };
  const isDeclared = (name) => !fields || fields.some((field) => field.name === name);
  const names = Object.keys(given).filter((name) => given[name].trim() && isDeclared(name));
  // the values of the inputs as the server takes them; throws if a field of the form is not right
  const inputValues = () => {
    if (!fields) return { inputs: Object.fromEntries(names.map((name) => [name, typed(given[name])])) };
    const { values, secrets: hidden, problems: wrong } = valuesOf(fields, given);
    setProblems(wrong);
    const [first] = Object.keys(wrong);
    if (first === undefined) return { inputs: values, ...(Object.keys(hidden).length ? { secrets: hidden } : {}) };
    setTab("inputs");
    throw new Error(`the input ${first} ${wrong[first]}`);
  };
  useCheck(text, names, setChecked);

  const perform = (action) =>
    act(async () => {
      setRefusal([]);
      try {
        await action();
      } catch (error) {
        const found = error.diagnostics || [];
        const wrong = fields ? found.filter((each) => OF_INPUTS.includes(each.code) && isDeclared(variableIn(each))) : [];
        setRefusal(found);
        setProblems((before) => (wrong.length ? problemsOf(wrong) : before));
        if (found.length) setTab(wrong.length ? "inputs" : "findings");
        throw error;
      }
    });
  const run = () =>
    perform(async () => {
      const more = terms ? await termsOf(terms) : {};
      const body = { plan: text, name: id || (terms && terms.name) || goalOf(text), ...inputValues(), ...more };
      const { run_id } = await request("/v1/runs", { body });
      await go(`run=${run_id}`);
    });
  // a run of this text with the inputs of the one that it is like, whose finished calls it keeps
  const keep = (agreed = {}) =>
    perform(async () => {
      const like = terms.like;
      const asked = await branch(`/v1/runs/${encodeURIComponent(like)}/rerun`, { plan: text, ...agreed });
      const confirm = () => keep({ consent: asked.consent });
      setEffects(asked ? { list: asked.effects, kept: asked.kept || [], confirm } : null);
    });
  // in its own spelling, or in another one
  const format = (to = null) =>
    perform(async () => {
      const result = await request("/v1/format", { body: { plan: text, to } });
      if (result.text !== null) setText(result.text);
      if (result.text === null || to) setRefusal(result.diagnostics); // of a conversion also what is lost
      if (result.text === null) setTab("findings");
    });
  const showGraph = () => setTab("picture");
  const dryRun = () => analyse("dry", "/v1/dry-run", () => ({ inputs: withoutSecrets(inputValues()) }));
  const verify = (plan = text) => analyse("proof", "/v1/verify", () => ({ inputs: names, ...policy }), plan);
  const analyse = (name, path, body, plan = text) =>
    perform(async () => {
      setAnswer({ name, data: await request(path, { body: { plan, ...body() } }), of: plan });
      setTab(name);
    });
  // a plan that a model has written, with its proof beside it
  const create = (plan) => {
    setText(plan);
    verify(plan);
  };
  const onKeyDown = (event) => {
    if (!(event.ctrlKey || event.metaKey)) return;
    if (event.key === "Enter") isBusy || !text.trim() || run();
    else if (event.key === "s") document.getElementById("save-id").focus();
    else return;
    event.preventDefault();
  };
  // fixes apply only to the text that they were made for
  const repair = (fix) => {
    if (refusal.length || (checked && checked.of === text)) setText(applyFix(text, fix));
    box.current?.focus();
  };
  const goToFix = (line) => {
    setTab("findings");
    requestAnimationFrame(() => document.querySelector(`.finding-list [data-line="${line}"] .fix`)?.focus());
    return true;
  };
  const findings = refusal.length ? refusal : checked ? checked.diagnostics : [];
  const marked = useMemo(() => checked && { ...checked, diagnostics: findings }, [checked, refusal]);
  const needed = ((checked && checked.needs) || []).filter((name) => !names.includes(name));
  const unset = [...new Set([...needed, ...findings.filter((each) => each.code === UNSET).map(variableIn)])].filter(Boolean);
  return html`<main class="sheet editor" onKeyDown=${onKeyDown}>
    <div class="head-line">
      <h1>${id || "New plan"}</h1>
      <button class="plain strong" disabled=${isBusy || !text.trim()} onClick=${run} title="Ctrl Enter">► Run</button>
      ${terms ? html`<button class="plain" disabled=${isBusy || !text.trim()} onClick=${() => keep()}
        title=${`With the inputs of ${terms.like}, whose finished calls are kept where they are the same`}
        >Run, keep finished calls</button>` : ""}
      <span class="joined">
        <button class="plain" disabled=${isBusy} onClick=${() => format()}>Format</button>
        <${Spelling} of=${checked && checked.syntax} isBusy=${isBusy} onPick=${format} />
      </span>
      <button class="plain" onClick=${showGraph}>Graph</button>
      <button class="plain" disabled=${isBusy} onClick=${dryRun}>Dry run</button>
      <${Verify} isBusy=${isBusy} onPolicy=${setPolicy} onPick=${() => verify()} />
      <${Save} text=${text} id=${id} />
      <${Verdict} checked=${checked} text=${text} unset=${unset} onInputs=${() => setTab("inputs")} />
    </div>
    ${id ? "" : html`<${Goal} onPlan=${create} />`}
    <${ErrorMessage} text=${problem} />
    ${effects ? html`<${Consent} effects=${effects} isBusy=${isBusy} onLeave=${() => setEffects(null)} />` : ""}
    <div class="editor-panes">
      <${PlanText} box=${box} text=${draftText} marked=${marked} terms=${{ inputs: names }} onText=${setText} onFix=${goToFix} />
      <section class="panel beside" aria-label="Analysis">
        <${Tabs} id="known" label="Analysis" current=${tab} onPick=${setTab} tabs=${[
          ["findings", html`Findings${findings.length ? html` <small>${findings.length}</small>` : ""}`],
          ["inputs", html`${fields ? "Inputs" : "Variables"}${unset.length ? html` <small>${unset.length} unset</small>` : names.length ? html` <small>${names.length}</small>` : ""}`],
          ["picture", "Graph"],
          ["dry", "Dry run"],
          ["proof", "Proof"],
        ]} />
        <div class="tab-body" id="known-panel" role="tabpanel" aria-labelledby=${`known-tab-${tab}`} tabindex="0">
          ${answer && answer.name === tab && answer.of !== text ? html`
            <p class="notice" role="status">This result is for an earlier text.</p>` : ""}
          ${tab === "findings" ? html`<${Findings} rows=${findings} text=${text} box=${box} onFix=${repair} />` : ""}
          ${tab === "inputs" ? html`<${Inputs} isRead=${checked !== null || !text.trim()} fields=${fields} inputs=${given} unset=${unset}
            problems=${problems} onChange=${setInputs} terms=${terms}
            onTerms=${(changed) => (draft.value = { ...draft.value, terms: changed })} />` : ""}
          ${tab === "picture" ? html`<${Drawing} text=${text} checked=${checked} box=${box} />` : ""}
          ${tab === "dry" ? html`<${DryRun} result=${resultOf(answer, "dry")} />` : ""}
          ${tab === "proof" ? html`<${Proof} result=${resultOf(answer, "proof")}
            text=${answer ? answer.of : text} box=${box} /><${DataLabels} key=${text} text=${text} inputs=${names}
            policy=${policy} />` : ""}
        </div>
      </section>
    </div>
  </main>`;
}

// The name of an unsaved plan: its goal, which is the docstring of a Python plan.
const goalOf = (text) => (/^(?:#\s*goal:\s*|\s+"""\s*)([^\n"]+)/m.exec(text)?.[1] || "plan").trim().slice(0, 80);

const problemsOf = (findings) => Object.fromEntries(findings.map((each) => [variableIn(each), `: ${each.message}`]));

// A dry run foresees a run without its secrets: it shows what it knows.
const withoutSecrets = ({ inputs }) => inputs;

const resultOf = (answer, name) => (answer && answer.name === name ? answer.data : null);

// Loads a plan of the library, or that of a run with its inputs, when its page is opened.
function useStoredPlan(id, like, act, onInputs) {
  useEffect(() => {
    if (!id && !like) return undefined;
    let isGone = false; // whether another plan has been opened
    act(async () => {
      if (like) {
        const made = await draftLike(like);
        if (isGone) return;
        draft.value = made;
        onInputs();
        return;
      }
      const stored = await request(`/v1/plans/${encodeURIComponent(id)}`);
      const defaults = stored.params.map((param) => [
        param.name,
        param.default === undefined || param.default === null ? "" : JSON.stringify(param.default),
      ]);
      if (!isGone) draft.value = { text: stored.text, inputs: Object.fromEntries(defaults), terms: null };
    });
    return () => {
      isGone = true;
    };
  }, [id, like]);
}

// Checks the text after each change; the longer that takes, the longer the pause before it.
function useCheck(text, known, setChecked) {
  const names = known.join(" ");
  const took = useRef(0);
  useEffect(() => {
    if (!text.trim()) {
      setChecked(null);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const body = { plan: text, inputs: names ? names.split(" ") : [] };
      const begun = performance.now();
      try {
        setChecked({ ...(await request("/v1/editor/marks", { body, signal: abort.signal })), of: text });
        took.current = performance.now() - begun;
      } catch (error) {
        if (error.name === "AbortError") return;
        setChecked({ ok: false, diagnostics: error.diagnostics || [], why: error.message, of: text });
      }
    }, Math.max(CHECK_DELAY, took.current));
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, names]);
}

function Verdict({ checked, text, unset, onInputs }) {
  if (!text.trim()) return html`<span class="quiet" role="status">no text yet</span>`;
  if (!checked || checked.of !== text) return html`<span class="quiet" role="status">checking …</span>`;
  if (checked.why) return html`<span class="status is-failed" role="status">✗ ${checked.why}</span>`;
  if (checked.ok && unset.length)
    return html`<span class="warn" role="status">▲ ${unset.map((name) => `$${name}`).join(", ")}${" "}
      ${unset.length === 1 ? "has" : "have"} no value: <button class="link" onClick=${onInputs}>set the ${checked.inputs ? "inputs" : "variables"}</button>${checked.inputs ? "" : ", or run without"}</span>`;
  return checked.ok
    ? html`<span class="status is-ok" role="status">✓ ready to run, ${checked.steps} ${checked.steps === 1 ? "step" : "steps"}</span>`
    : html`<span class="status is-failed" role="status">✗ cannot run: it has errors</span>`;
}

const SPELLINGS = { ltp: "LTP text", micro: "Micro-CLI", dag: "JSON plan", python: "Python" };

// The spelling of the text; choosing another one converts it.
function Spelling({ of, isBusy, onPick }) {
  return html`<label class="only-read" for="spelling">Spelling</label>
    <select id="spelling" disabled=${isBusy || !of} value=${of || ""} onChange=${into(onPick)}
      title="The spelling of the text; another one converts it">
      ${SPELLINGS[of] ? "" : html`<option value=${of || ""}>${of === "json" ? "canonical JSON" : "spelling"}</option>`}
      ${Object.entries(SPELLINGS).map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}
    </select>`;
}

// The button to verify, with a selection of the policy: the one in force, otherwise a built-in one.
function Verify({ isBusy, onPick, onPolicy }) {
  const [policies, setPolicies] = useState({ in_force: null, shipped: [] });
  const [policy, setPolicy] = useState("");
  const pick = (name) => {
    setPolicy(name);
    onPolicy(name ? { policy: name } : {});
  };
  useEffect(() => {
    request("/v1/policy").then(
      (known) => {
        setPolicies(known);
        if (!known.in_force) pick(known.shipped[0]);
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
  const [status, setStatus] = useState("");
  const [isTaken, setTaken] = useState(false); // whether another plan has that name
  const [problem, isBusy, act] = useAction();
  const rename = (to) => {
    setName(to);
    setTaken(false);
  };
  const save = (event) => {
    event.preventDefault();
    act(async () => {
      setStatus("");
      const body = { plan: text, replace: isTaken || name === id };
      try {
        const stored = await request(`/v1/plans/${encodeURIComponent(name)}`, { method: "PUT", body });
        setStatus(`saved as ${stored.id}`);
        setTaken(false);
      } catch (error) {
        setTaken(error.status === 409);
        throw error;
      }
    });
  };
  return html`<form class="joined" onSubmit=${save}>
    <label class="only-read" for="save-id">Name of the plan</label>
    <input id="save-id" size="14" placeholder="name" pattern="[a-z0-9][a-z0-9._\\-]{0,63}" required value=${name}
      title="a to z, 0 to 9, and . _ -" onInput=${into(rename)} />
    <button class="plain" disabled=${isBusy || !text.trim()}>${isTaken ? "Replace it" : "Save"}</button>
    <span class=${problem ? "warn" : "quiet"} role="status">${problem || status}</span>
  </form>`;
}
