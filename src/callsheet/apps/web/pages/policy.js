// The policy that all runs are under, and those that are shipped.
import { useEffect, useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { Wrong, into, useReading } from "../../viewer/doing.js";
import { ask } from "./session.js";

const WORDS = {
  audiences: "who may read what",
  sources: "what data is taken for",
  tools: "tools",
  allowed_tools: "the only tools",
  denied_tools: "tools that are refused",
  refuse_unknown_tools: "unknown tools are refused",
  egress_hosts: "the only hosts that data goes to",
  host_read: "files of the machine that may be read",
  exec_network: "programs may use the network",
  implicit: "conditions on private data",
  memory: "what memory holds",
  planner: "what plans are taken for",
  inputs: "what inputs are taken for",
  agent: "agents",
  replan: "new plans",
  approved: "already agreed to",
  declassify: "what may become public",
  forbidden: "texts that never leave",
  rules: "rules",
  max_steps: "steps at most",
  max_calls: "calls at most",
  max_retries: "retries at most",
};

export function Policy() {
  const [told, setTold] = useState(null);
  const [name, setName] = useState("");
  const [shown, setShown] = useState(null);
  const [wrong, , read] = useReading();
  useEffect(() => void read(async () => setTold(await ask("/v1/policy"))), []);
  useEffect(() => {
    if (name) read(async () => setShown(await ask(`/v1/policy/${name}`)));
    else setShown(told && told.in_force);
  }, [name, told]);
  if (!told) return html`<main class="sheet"><p class="pad quiet">looking …</p><${Wrong} said=${wrong} /></main>`;
  return html`<main class="sheet">
    <div class="head-line"><h1>Policy</h1>
      <label>show <select value=${name} onChange=${into(setName)}>
        <option value="">${told.in_force ? `${told.in_force.name} (in force)` : "the one in force"}</option>
        ${told.shipped.map((each) => html`<option key=${each} value=${each}>${each} (shipped)</option>`)}
      </select></label>
    </div>
    <${Wrong} said=${wrong} />
    ${shown ? html`<${Shown} policy=${shown} />` : html`<p class="pad">
      No policy is in force: runs are held to one where they name it, or where the server is started with
      ${" "}<code>--policy</code>.
    </p>`}
    <p class="pad quiet">
      Whether a plan may run under it, and whose data goes where in it: “Verify” in the <a href="#plan">editor</a>.
    </p>
  </main>`;
}

function Shown({ policy }) {
  const rows = Object.entries(policy.policy).filter(([key]) => !["policy", "name"].includes(key));
  return html`<section class="panel policy" aria-label=${policy.name}>
    <p class="pad quiet">hash <code>${policy.hash}</code></p>
    <dl>${rows.map(
      ([key, value]) => html`<div key=${key}><dt>${WORDS[key] || key}</dt><dd><${Value} value=${value} /></dd></div>`,
    )}</dl>
  </section>`;
}

function Value({ value }) {
  if (value === null) return html`<span class="quiet">no word</span>`;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "object") return html`<code>${String(value)}</code>`;
  const rows = Array.isArray(value) ? value.map((each) => ["", each]) : Object.entries(value);
  if (!rows.length) return html`<span class="quiet">none</span>`;
  return html`<ul>${rows.map(
    ([key, each], n) => html`<li key=${n}>
      ${key ? html`<code>${key}</code> ` : ""}<code>${each instanceof Object ? line(each) : String(each)}</code>
    </li>`,
  )}</ul>`;
}

// A member of a list on one line: what is said of what first.
function line(value) {
  const { kind, pattern, label, name, ...rest } = value;
  const told = Object.entries(rest)
    .filter(([, each]) => each !== null && !(Array.isArray(each) && !each.length))
    .map(([key, each]) => `${key}: ${typeof each === "object" ? JSON.stringify(each) : each}`);
  const head = [name || kind, pattern, label && `→ ${label}`].filter(Boolean).join(" ");
  return [head, ...told].filter(Boolean).join("  ");
}
