// The run as it would be handed on: the very document that `callsheet lctl emit` writes.
import { CopyButton, VirtualList, bytes, download, html } from "./ui.js";
import { useMemo } from "preact/hooks";
import { plain } from "./model.js";
import { model } from "./state.js";

export function Lctl() {
  const made = model.value;
  const { text, kind } = made.doc.lctl;
  const lines = useMemo(
    () =>
      plain(text || "")
        .replace(/\n$/, "")
        .split("\n"),
    [text],
  );
  if (!text) return html`<p class="quiet pad">The document tells values, and is left out of this report.</p>`;
  return html`<div class="lctl">
    <div class="bar"><span><b>${kind === "debug" ? "Post-mortem" : "Hand-off"}</b> <span
        class="quiet">LCTL 3.0, ${bytes(text.length)}</span></span>
      <span><${CopyButton} text=${text} /> <button class="plain"
          onClick=${() => download(`${made.run.id}.lctl.yaml`, text)}>Download</button></span></div>
    <${VirtualList} label="The document" class="source" count=${lines.length} height=${20} row=${(n) => html`<div
        role="listitem" key=${n} class="line"><code>${lines[n] || " "}</code></div>`} />
  </div>`;
}
