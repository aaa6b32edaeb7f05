// The page of a run: the viewer, fed by the server, which also does what is asked of it.
import { useEffect } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { Viewer, open } from "../../viewer/viewer.js";
import { served } from "../../viewer/sources.js";
import { acts, base } from "../../viewer/state.js";
import { Refused, ask } from "./session.js";
import { go } from "./route.js";

export function Run({ id, other }) {
  useEffect(() => {
    const run = `/v1/runs/${encodeURIComponent(id)}`;
    const source = served(`${run}/document${other ? `?other=${encodeURIComponent(other)}` : ""}`, `${run}/events`);
    base.value = `run=${id}${other ? `&other=${other}` : ""}`;
    acts.value = deeds(id, run, source);
    const close = open(source);
    return () => {
      close();
      acts.value = null;
      base.value = "";
    };
  }, []);
  return html`<${Viewer} />`;
}

function deeds(id, run, source) {
  const tell = (what) => async (body) => {
    await ask(`${run}/${what}`, { body: body || {} });
    source.wake();
  };
  return {
    approve: tell("approve"),
    decide: tell("decide"),
    resume: () => tell("resume")({}),
    cancel: () => tell("cancel")({ reason: "cancelled in the viewer" }),
    rerun: (body) => branch(`${run}/rerun`, body),
    fork: (body) => branch(`${run}/fork`, body),
    compare: (other) => go(`run=${id}${other ? `&other=${other}&below=diff` : "&below=diff"}`),
    others: async () => (await ask("/v1/runs?limit=100")).runs,
    report: `${run}/report`,
    spans: () => ask(`${run}/spans`),
  };
}

// A new run of this one; gives what it would change outside, where nobody has agreed to that yet.
async function branch(path, body) {
  try {
    const { run_id } = await ask(path, { body });
    await go(`run=${run_id}`);
    return null;
  } catch (error) {
    if (error instanceof Refused && error.problem.effects) return error.problem.effects;
    throw error;
  }
}
