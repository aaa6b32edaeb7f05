// The page of a run: the viewer with data from the server, and the actions on the run.
import { useEffect } from "preact/hooks";
import { html } from "../../viewer/ui.js";
import { Viewer, open } from "../../viewer/viewer.js";
import { served } from "../../viewer/sources.js";
import { actions, base } from "../../viewer/state.js";
import { Refused, isSignedIn, request, roles } from "./session.js";
import { branch, runAgain } from "./again.js";
import { go } from "./route.js";

export function Run({ id, other }) {
  useEffect(() => {
    const run = `/v1/runs/${encodeURIComponent(id)}`;
    const documents = `${run}/document${other ? `?other=${encodeURIComponent(other)}` : ""}`;
    const source = served(documents, `${run}/events`, () => {
      isSignedIn.value = false;
    });
    base.value = `run=${id}${other ? `&other=${other}` : ""}`;
    actions.value = actionsOf(id, run, source, other);
    const close = open(source);
    return () => {
      close();
      actions.value = null;
      base.value = "";
    };
  }, []);
  return html`<${Viewer} />`;
}

function actionsOf(id, run, source, other) {
  const query = other ? `?other=${encodeURIComponent(other)}` : "";
  const post = (action) => async (body) => {
    await request(`${run}/${action}`, { body: body || {} });
    source.wake();
  };
  return {
    approve: post("approve"),
    decide: post("decide"),
    resume: () => post("resume")({}),
    cancel: () => post("cancel")({ reason: "cancelled in the viewer" }),
    pause: () => post("pause")({}),
    again: () => runAgain(id),
    change: () => go(`plan&like=${id}`),
    rerun: (body) => branch(`${run}/rerun`, body),
    fork: (body) => branch(`${run}/fork`, body),
    undo: (body) => branch(`${run}/undo`, body),
    isUndoable: async () => {
      try {
        const { calls, unfinished } = await request(`${run}/undo`);
        return calls.length > 0 || unfinished !== null;
      } catch (error) {
        return !(error instanceof Refused && error.problem.code === "JRN086"); // the button says what else is wrong
      }
    },
    compare: (other) => go(`run=${id}${other ? `&other=${other}&below=diff` : "&below=diff"}`),
    // the open questions of this run with the further calls of the plan that one answer may cover
    holds: (role) => roles.value.includes(role),
    programs: async () => (await request("/v1/inbox")).asks.filter((ask) => ask.run_id === id && ask.program),
    others: async () => (await request("/v1/runs?limit=100")).runs,
    report: `${run}/report`,
    journal: `${run}/journal`,
    // the JSON text of a value of which the document has only the beginning
    whole: (digest) => request(`${run}/values/${digest}${query}`, { as: "text" }),
    spans: () => request(`${run}/spans`),
  };
}
