// The plan that is being written as a graph: drawn anew whenever its text has been checked and could be read.
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { Sketch } from "../../viewer/sketch.js";
import { ask } from "./session.js";
import { pointAt } from "./textarea.js";

// `checked` is what the server has said of a text, in `of`; it has steps where the text is a plan.
export function Drawing({ text, checked, box }) {
  const [drawn, setDrawn] = useState(null); // the last plan that could be read: { plan, of: its text }
  const [wrong, setWrong] = useState("");
  const isPlan = Boolean(checked && checked.steps);
  const readable = isPlan ? checked.of : null;
  useEffect(() => {
    if (readable === null) return undefined;
    const abort = new AbortController();
    const body = { plan: readable, format: "graph" };
    ask("/v1/visualize", { body, signal: abort.signal }).then(
      ({ plan }) => {
        setDrawn({ plan, of: readable });
        setWrong("");
      },
      (error) => error.name === "AbortError" || setWrong(error.message),
    );
    return () => abort.abort();
  }, [readable]);
  // made once for each plan, so that a key is not held up by a large one
  const picture = useMemo(() => {
    const pick = (row) => row.at !== null && pointAt(box, drawn.of, row.at);
    return drawn && html`<${Sketch} plan=${drawn.plan} onPick=${pick} />`;
  }, [drawn]);
  if (!text.trim()) return html`<p class="quiet pad">The plan is drawn here as you write it.</p>`;
  const why = wrong || (checked && !isPlan ? "the findings say what is wrong" : "");
  return html`
    ${why ? html`<p class="notice" role="status">
      The text cannot be drawn: ${why}.${drawn ? " This is the plan as it was before." : ""}</p>` : ""}
    ${picture}`;
}
