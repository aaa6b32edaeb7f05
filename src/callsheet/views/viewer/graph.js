// The entry point of a page with the graph of a plan that has not run.
import { render } from "preact";
import { html } from "./ui.js";
import { Sketch } from "./sketch.js";
import { keepTheme } from "./state.js";

// an editor that shows this page is told which step was picked, and moves its cursor there
const editor = window.acquireVsCodeApi ? window.acquireVsCodeApi() : null;
const pick = (row) => row.at !== null && editor && editor.postMessage({ at: row.at });

keepTheme();
const place = document.getElementById("callsheet");
place.textContent = "";
const draw = (plan) => render(html`<main class="alone"><${Sketch} plan=${plan} onPick=${pick} /></main>`, place);
draw(JSON.parse(document.getElementById("callsheet-data").textContent));
// the editor sends the plan again after each change, so that folds, zoom and place stay
if (editor) window.addEventListener("message", ({ data }) => data.plan && draw(data.plan));
