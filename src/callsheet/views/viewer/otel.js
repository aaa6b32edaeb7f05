// The spans of the run, in the OTLP of `callsheet trace export`, without arguments and results.
import { useEffect, useState } from "preact/hooks";
import { CopyButton, Source, bytes, counted, download, html } from "./ui.js";
import { decompressed } from "./compressed.js";
import { actions, model } from "./state.js";

const SIGNALS = { resourceSpans: "spans", resourceLogs: "log records", resourceMetrics: "metrics" };

export function Otel() {
  const data = model.value;
  const [otel, setOtel] = useState(data.doc.otel);
  const [loaded, setLoaded] = useState(null);
  const [signal, setSignal] = useState(0);
  useEffect(() => {
    if (!actions.value) setOtel(data.doc.otel);
    else actions.value.spans().then(setOtel, (error) => setLoaded({ why: error.message })); // a server sends them separately
  }, [data]);
  useEffect(() => {
    let isGone = false;
    setLoaded(null);
    if (otel.packed)
      decompressed(otel.packed).then(
        (text) => isGone || setLoaded(text),
        (error) => isGone || setLoaded({ why: error.message }),
      );
    return () => {
      isGone = true;
    };
  }, [otel]);
  if (!otel.packed)
    return html`<p class="quiet pad">
      The spans of this run are not in this page:${" "}
      <code>callsheet trace export ${data.run.id} --file ${data.run.id}.otlp.jsonl</code>
    </p>`;
  if (loaded === null) return html`<p class="quiet pad">Decompressing the spans…</p>`;
  if (loaded.why) return html`<p class="quiet pad">The spans cannot be shown: ${loaded.why}</p>`;
  const requests = loaded.trimEnd().split("\n").map((line) => JSON.parse(line));
  const shown = requests[signal] || requests[0];
  const text = JSON.stringify(shown, null, 1);
  const kinds = [counted(otel.spans, "span"), counted(otel.logs, "log record"), counted(otel.metrics, "metric")];
  const save = () => download(`${data.run.id}.otlp.jsonl`, loaded, "application/x-ndjson");
  return html`<div class="otel">
    <div class="bar">
      <span>
        <b>OTLP</b>${" "}
        <span class="quiet">${kinds.join(", ")}, ${bytes(otel.bytes)}; without arguments and results</span>
      </span>
      <label>
        <span class="quiet">show</span>${" "}
        <select value=${String(signal)} onChange=${(event) => setSignal(Number(event.currentTarget.value))}>
          ${requests.map(
            (each, n) => html`<option key=${n} value=${String(n)}>${SIGNALS[Object.keys(each)[0]]}</option>`,
          )}
        </select>
      </label>
      <span class="acts">
        <${CopyButton} text=${text} />
        <button class="plain" onClick=${save}>Download</button>
      </span>
    </div>
    <${Source} label="The request" text=${text} />
  </div>`;
}
