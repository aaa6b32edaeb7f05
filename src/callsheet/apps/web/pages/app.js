// The web viewer: sign-in, navigation between pages, keyboard shortcuts.
import { render } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { Dialog, html } from "../../viewer/ui.js";
import { listen as listenForRun } from "../../viewer/keys.js";
import { keepAddress, keepTheme, model, nextTheme, theme } from "../../viewer/state.js";
import { into } from "../../viewer/actions.js";
import { start, isSignedIn, person, signIn, signOut } from "./session.js";
import { go, route, watch } from "./route.js";
import { Runs } from "./runs.js";
import { Run } from "./run.js";
import { Plans } from "./plans.js";
import { Editor } from "./editor.js";
import { Tools } from "./tools.js";
import { Policy } from "./policy.js";

const PLACES = [
  ["runs", "Runs", "r"],
  ["plan", "New plan", "e"],
  ["plans", "Saved plans", "s"],
  ["tools", "Tools", "o"],
  ["policy", "Policy", "p"],
];
const KEYS = [
  ...PLACES.map(([, text, key]) => [key, text.toLowerCase()]),
  ["/", "search the list of runs"],
  ["j k", "next, previous row"],
  ["Enter", "open the row"],
  ["Ctrl Enter", "in the editor: run the plan"],
  ["Ctrl S", "in the editor: save the plan"],
  ["Ctrl Space", "in the editor: what may stand here"],
  ["Ctrl K Ctrl I", "in the editor: explain the word"],
  ["F8", "in the editor: the next finding"],
  ["F12", "in the editor: the definition of the name, or its next place"],
  ["F2", "in the editor: rename a variable, a step or a sub-plan"],
  ["Ctrl .", "in the editor: to the fix for this line"],
  ["t", "light, dark, auto"],
  ["?", "this help; a run has further keys"],
];

function App() {
  const { page, id, other, like } = route.value;
  const [isHelpOpen, setHelping] = useState(false);
  useLayoutEffect(() => listen(setHelping), []); // before the first key press
  const title = titleOf(page, id);
  useEffect(() => {
    document.title = title ? `${title} · callsheet` : "callsheet";
  }, [title]);
  if (isSignedIn.value === null) return html`<main class="nothing"><p role="status">Loading …</p></main>`;
  if (!isSignedIn.value) return html`<${SignIn} />`;
  return html`<div class="page is-${page}">
    <${Bar} page=${page} id=${id} onHelp=${() => setHelping(true)} />
    ${page === "run" ? html`<${Run} key=${`${id} ${other}`} id=${id} other=${other} />` : ""}
    ${page === "runs" ? html`<${Runs} />` : ""}
    ${page === "plans" ? html`<${Plans} />` : ""}
    ${page === "plan" ? html`<${Editor} key=${`${id} ${like}`} id=${id} like=${like} />` : ""}
    ${page === "tools" || page === "tool" ? html`<${Tools} id=${page === "tool" ? id : ""} />` : ""}
    ${page === "policy" ? html`<${Policy} />` : ""}
    ${isHelpOpen ? html`<${Help} onClose=${() => setHelping(false)} />` : ""}
  </div>`;
}

// What the page shows, as the title of its tab.
function titleOf(page, id) {
  if (isSignedIn.value === null) return "";
  if (!isSignedIn.value) return "Sign in";
  if (page === "tool") return id;
  if (page !== "run") return page === "plan" && id ? id : PLACES.find(([name]) => name === page)[1];
  if (!model.value) return id;
  const { goal, name, words } = model.value.run;
  return `${words} · ${shortened(goal || name)} · ${id}`;
}

const shortened = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);

function Bar({ page, id, onHelp }) {
  const place = page === "tool" ? "tools" : page === "plan" && id ? "plans" : page;
  const themes = { auto: "◐ auto", light: "○ light", dark: "● dark" };
  return html`<header class="bar top">
    <a class="home" href="#runs">callsheet</a>
    <nav aria-label="Pages">
      ${PLACES.map(
        ([name, text]) => html`
          <a key=${name} href=${`#${name}`} aria-current=${name === place ? "page" : undefined}>${text}</a>`,
      )}
    </nav>
    <span class="acts">
      ${page === "run"
        ? ""
        : html`<button class="plain" onClick=${nextTheme}
              title="Theme: light, dark or that of the system (t)">${themes[theme.value]}</button>
            <button class="plain" onClick=${onHelp} title="Keys (?)">? help</button>`}
      ${person.value ? html`<span class="quiet">${person.value}</span>` : ""}
      <button class="plain" onClick=${signOut}>Sign out</button>
    </span>
  </header>`;
}

function SignIn() {
  const [secret, setSecret] = useState("");
  const [problem, setProblem] = useState("");
  const send = async (event) => {
    event.preventDefault();
    try {
      await signIn(secret.trim());
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<main class="nothing sign-in">
    <h1>callsheet</h1>
    <p>Open the address that <code>callsheet serve</code> has printed, or enter its token.</p>
    <form onSubmit=${send}>
      <label for="secret">Token</label>
      <input id="secret" type="password" autocomplete="current-password" required value=${secret}
        onInput=${into(setSecret)} />
      <button class="plain strong">Sign in</button>
    </form>
    ${problem ? html`<p class="why is-failed" role="alert">${problem}</p>` : ""}
  </main>`;
}

function Help({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <dl class="keys">${KEYS.map(
      ([key, text]) => html`<div key=${key}>
        <dt>${key.split(" ").map((each) => html`<kbd>${each}</kbd> `)}</dt><dd>${text}</dd>
      </div>`,
    )}</dl>
    <p>Programs use <a href="/docs">the HTTP API</a>.</p>
  <//>`;
}

// Single-key shortcuts, except while text is entered. On the page of a run, the viewer has its own shortcuts.
function listen(onHelp) {
  const places = Object.fromEntries(PLACES.map(([name, , key]) => [key, name]));
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !isSignedIn.value) return;
    if (event.target.closest("input, textarea, select, .text-place") || document.querySelector("dialog[open]")) return;
    const hasRun = model.value !== null; // then most keys belong to the viewer
    if (places[event.key] && !(hasRun && event.key !== "r")) go(places[event.key]);
    else if (hasRun) return;
    else if (event.key === "?") onHelp(true);
    else if (event.key === "Escape") onHelp(false); // also before the dialog has been rendered
    else if (event.key === "t") nextTheme();
    else if (event.key === "/") document.getElementById("filter")?.focus();
    else if (event.key === "j" || event.key === "k") focusRow(event.key === "j" ? 1 : -1);
    else return;
    event.preventDefault();
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

// Focuses the next or previous row of a list.
function focusRow(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
}

keepTheme();
keepAddress();
listenForRun();
watch();
render(html`<${App} />`, document.getElementById("callsheet"));
start();
