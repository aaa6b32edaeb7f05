// Another run like a recorded one: the same plan, inputs and terms. Secrets are never taken over.
import { Refused, request } from "./session.js";
import { textOf } from "./fields.js";
import { go } from "./route.js";

// The plan, inputs and terms of a run; throws if its plan was not a text.
async function beginningOf(id) {
  const begun = await request(`/v1/runs/${encodeURIComponent(id)}/beginning`);
  if (!begun.plan) throw new Error(`the plan of run ${id} was made by a program: it has no text to start it from`);
  return begun;
}

// What the editor starts with for a run like this one.
export async function draftLike(id) {
  const begun = await beginningOf(id);
  const { approve, approval_timeout, limits, policy, tags, sealed, name } = begun;
  const inputs = Object.fromEntries(Object.entries(begun.inputs).map(([each, value]) => [each, textOf(value)]));
  return { text: begun.plan, inputs, terms: { like: id, name, approve, approval_timeout, limits, policy, tags: withoutOwn(tags), sealed } };
}

// Who starts a run is recorded by the server.
const withoutOwn = ({ by: _, ...tags }) => tags;

// The terms as the server takes them; it refuses a policy if it has its own for all runs.
export async function termsOf({ approve, approval_timeout: times, limits, policy, tags }) {
  const { in_force } = policy ? await request("/v1/policy") : { in_force: null };
  const timeouts = Object.keys(times).length ? { approval_timeout: times } : {};
  return { approve, ...timeouts, limits, tags, ...(policy && !in_force ? { policy } : {}) };
}

// Starts the same again; a run with secrets needs them, so that the editor asks for them.
export async function runAgain(id) {
  const begun = await beginningOf(id);
  if (begun.sealed.length) return go(`plan&like=${id}`);
  const terms = await termsOf({ ...begun, tags: withoutOwn(begun.tags) });
  const body = { plan: begun.plan, name: begun.name.slice(0, 80), inputs: begun.inputs, ...terms };
  const { run_id } = await request("/v1/runs", { body });
  return go(`run=${run_id}`);
}

// Branches or undoes a run. Returns the calls with side effects and the code of consent to exactly these if
// they need consent, otherwise null.
export async function branch(path, body) {
  try {
    const { run_id } = await request(path, { body });
    await go(`run=${run_id}`);
    return null;
  } catch (error) {
    if (error instanceof Refused && error.problem.consent) return error.problem;
    throw error;
  }
}
