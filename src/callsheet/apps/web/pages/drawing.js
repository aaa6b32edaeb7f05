// The edited plan as a graph, which is updated after each check that finds a valid plan.
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { Sketch } from "../../viewer/sketch.js";
import { request } from "./session.js";
import { setCursorAt } from "./text.js";

// Where the step at a place of the text `of` stands in the text `now`, which may have been edited since it was drawn.
function placeNow(at, of, now) {
  if (now === of) return at;
  const label = /^\w+:/.exec([...of].slice(at).join(""));
  const found = label ? now.split("\n").findIndex((line) => line.trimStart().startsWith(label[0])) : -1;
  if (found < 0) return at;
  const before = now.split("\n").slice(0, found + 1).join("\n");
  return [...before].length - [...now.split("\n")[found].trimStart()].length;
}

// `checked` is the result of the last check, for the text `of`; it has steps if that text is a plan.
export function Drawing({ text, checked, box }) {
  const [drawn, setDrawn] = useState(null); // the last valid plan: { plan, of: its text }
  const [problem, setProblem] = useState("");
  const isPlan = Boolean(checked && checked.steps);
  const planText = isPlan ? checked.of : null;
  useEffect(() => {
    if (planText === null) return undefined;
    const abort = new AbortController();
    const body = { plan: planText, format: "graph" };
    request("/v1/visualize", { body, signal: abort.signal }).then(
      ({ plan }) => {
        setDrawn({ plan, of: planText });
        setProblem("");
      },
      (error) => error.name === "AbortError" || setProblem(error.message),
    );
    return () => abort.abort();
  }, [planText]);
  // created once per plan, so that typing is not slowed down by a large one
  const picture = useMemo(() => {
    const pick = (row) => {
      const now = box.current?.value;
      if (box.current && row.at !== null) setCursorAt(box, now, placeNow(row.at, drawn.of, now));
    };
    return drawn && html`<${Sketch} plan=${drawn.plan} onPick=${pick} />`;
  }, [drawn]);
  if (!text.trim()) return html`<p class="quiet pad">The graph of the plan is shown here.</p>`;
  const why = problem || (checked && !isPlan ? "see the findings" : "");
  return html`
    ${why ? html`<p class="notice" role="status">
      No graph: ${why}.${drawn ? " This is the graph of the last valid plan." : ""}</p>` : ""}
    ${picture}`;
}
