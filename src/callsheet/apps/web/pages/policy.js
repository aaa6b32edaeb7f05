// The policy in force for all runs, and the built-in policies.
import { useEffect, useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { ErrorMessage, into, useRequest } from "../../viewer/actions.js";
import { request } from "./session.js";

const WORDS = {
  audiences: "audiences",
  sources: "labels of sources",
  tools: "tools",
  allowed_tools: "allowed tools",
  denied_tools: "denied tools",
  refuse_unknown_tools: "unknown tools are refused",
  egress_hosts: "hosts that data may be sent to",
  host_read: "files of the machine that may be read",
  exec_network: "programs may use the network",
  implicit: "conditions on private data",
  memory: "label of memory",
  planner: "label of plans",
  inputs: "labels of inputs",
  agent: "agents",
  replan: "new plans",
  approved: "approved in advance",
  declassify: "declassification",
  forbidden: "texts that may not be sent",
  rules: "rules",
  max_steps: "maximum steps",
  max_calls: "maximum calls",
  max_retries: "maximum retries",
};

export function Policy() {
  const [policies, setPolicies] = useState(null);
  const [name, setName] = useState("");
  const [shown, setShown] = useState(null);
  const [problem, , read] = useRequest();
  useEffect(() => void read(async () => setPolicies(await request("/v1/policy"))), []);
  useEffect(() => {
    if (name) read(async () => setShown(await request(`/v1/policy/${name}`)));
    else setShown(policies && policies.in_force);
  }, [name, policies]);
  if (!policies) return html`<main class="sheet"><p class="pad quiet">loading …</p><${ErrorMessage} text=${problem} /></main>`;
  return html`<main class="sheet">
    <div class="head-line"><h1>Policy</h1>
      <label>show <select value=${name} onChange=${into(setName)}>
        <option value="">${policies.in_force ? `${policies.in_force.name} (in force)` : "the policy in force"}</option>
        ${policies.shipped.map((each) => html`<option key=${each} value=${each}>${each} (built-in)</option>`)}
      </select></label>
    </div>
    <${ErrorMessage} text=${problem} />
    ${shown ? html`<${Shown} policy=${shown} />` : html`<p class="pad">
      No policy is in force. A run can name one, or start the server with
      ${" "}<code>--policy</code>.
    </p>`}
    <p class="pad quiet">
      “Verify” in the <a href="#plan">editor</a> proves a plan against a policy and shows the labels of its data.
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
  if (value === null) return html`<span class="quiet">not set</span>`;
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

// Returns a member of a list on one line, with its name or pattern first.
function line(value) {
  const { kind, pattern, label, name, ...rest } = value;
  const details = Object.entries(rest)
    .filter(([, each]) => each !== null && !(Array.isArray(each) && !each.length))
    .map(([key, each]) => `${key}: ${typeof each === "object" ? JSON.stringify(each) : each}`);
  const head = [name || kind, pattern, label && `→ ${label}`].filter(Boolean).join(" ");
  return [head, ...details].filter(Boolean).join("  ");
}
