// The entry point of a page with one run, whose data is in the page.
import { render } from "preact";
import { html } from "./ui.js";
import { Viewer, open } from "./viewer.js";
import { listen } from "./keys.js";
import { embedded } from "./sources.js";
import { keepAddress, keepTheme } from "./state.js";

// Shows a run in an element; `source` is a source of sources.js.
function mount(element, source) {
  keepTheme();
  element.textContent = "";
  render(html`<${Viewer} />`, element);
  open(source);
  keepAddress();
  listen();
}

const place = document.getElementById("callsheet");
const data = document.getElementById("callsheet-data");
if (place && data) mount(place, embedded(data));
