// A goal that becomes a plan: the configured model writes it, or the library has it; it is looked at before it runs.
import { useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { into, useDoing } from "../../viewer/doing.js";
import { ask } from "./session.js";

export function Goal({ onPlan }) {
  const [goal, setGoal] = useState("");
  const [said, setSaid] = useState("");
  const [answer, setAnswer] = useState(""); // what the model wrote instead of a plan
  const [wrong, isBusy, act] = useDoing();
  const make = (event) => {
    event.preventDefault();
    act(async () => {
      setSaid("");
      setAnswer("");
      try {
        const made = await ask("/v1/compile", { body: { goal: goal.trim(), library: true } });
        if (made.text !== null) onPlan(made.text);
        setAnswer(made.text === null ? made.answer || "" : "");
        if (made.text === null) throw new Error("the model wrote no plan");
        setSaid(made.from === "library" ? `the plan ${made.id || ""} of the library` : "a plan: look at it, then run it");
      } catch (error) {
        const [first] = error.diagnostics || [];
        if (first && first.help) throw new Error(`${first.message}: ${first.help}`);
        throw error;
      }
    });
  };
  return html`<form class="goal" onSubmit=${make}>
    <label for="goal">Goal</label>
    <input id="goal" required maxlength="100000" placeholder="what is to be reached; a model writes the plan"
      value=${goal} onInput=${into(setGoal)} />
    <button class="plain" disabled=${isBusy || !goal.trim()}>Make a plan</button>
    <span class=${wrong ? "warn" : "quiet"} role="status">${isBusy ? "the model is asked …" : wrong || said}</span>
    ${answer ? html`<pre class="page-of-code">${answer}</pre>` : ""}
  </form>`;
}
