// Compiles a goal to a plan in the editor, with the configured model or from the library. Nothing is run.
import { useState } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { into, useAction } from "../../viewer/actions.js";
import { request } from "./session.js";

export function Goal({ onPlan }) {
  const [goal, setGoal] = useState("");
  const [status, setStatus] = useState("");
  const [answer, setAnswer] = useState(""); // the answer of the model, if it is not a plan
  const [problem, isBusy, act] = useAction();
  const compile = (event) => {
    event.preventDefault();
    act(async () => {
      setStatus("");
      setAnswer("");
      try {
        const result = await request("/v1/compile", { body: { goal: goal.trim(), library: true } });
        if (result.text !== null) onPlan(result.text);
        setAnswer(result.text === null ? result.answer || "" : "");
        if (result.text === null) throw new Error("the model's answer is not a plan");
        const isStored = result.from === "library";
        setStatus(isStored ? `the plan ${result.id || ""} of the library` : "a new plan: review it, then run it");
      } catch (error) {
        const [first] = error.diagnostics || [];
        if (first && first.help) throw new Error(`${first.message}: ${first.help}`);
        throw error;
      }
    });
  };
  return html`<form class="goal" onSubmit=${compile}>
    <label for="goal">Goal</label>
    <input id="goal" required maxlength="100000" placeholder="a goal, from which a model writes a plan"
      value=${goal} onInput=${into(setGoal)} />
    <button class="plain" disabled=${isBusy || !goal.trim()}>Create a plan</button>
    <span class=${problem ? "warn" : "quiet"} role="status">${isBusy ? "the model is working …" : problem || status}</span>
    ${answer ? html`<pre class="code-page" tabindex="0" role="region" aria-label="What the model has written">${answer}</pre>` : ""}
  </form>`;
}
