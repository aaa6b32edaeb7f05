// Asks the API, and signs a browser in: by the code in the address that `callsheet serve` printed, or by the token.
import { signal } from "@preact/signals";

export const isSignedIn = signal(null); // null until it is known

// A refusal of the API: what its problem says, with its diagnostics.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.status = status;
    this.problem = problem;
    this.diagnostics = problem.diagnostics || [];
  }
}

// The data that an address gives; `body` makes it a POST. Raises Refused, or an Error where no server answers.
export async function ask(path, { method, body, signal: abort } = {}) {
  // pages of other sites cannot send this header: without it the server makes no change
  const headers = { "X-Callsheet": "1", accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method: method || (body === undefined ? "GET" : "POST"),
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      redirect: "error",
      signal: abort,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer; is callsheet serve still running?");
  }
  if (answer.status === 204) return null;
  const data = await answer.json().catch(() => ({}));
  if (answer.status === 401 && !path.endsWith("/session")) isSignedIn.value = false;
  if (!answer.ok) throw new Refused(answer.status, data);
  return data;
}

export async function signIn(secret) {
  await ask("/v1/session", { body: { secret } });
  isSignedIn.value = true;
}

export async function signOut() {
  await ask("/v1/session", { method: "DELETE" });
  isSignedIn.value = false;
}

const CODE = /^#code=([\w-]+)$/;

// Sign in, and once more where a printed address is opened in a page that is there already.
export function begin() {
  addEventListener("hashchange", () => CODE.test(location.hash) && signInByAddress());
  return signInByAddress();
}

// Take the code out of the address, so that it stands in no history, and sign in with it.
async function signInByAddress() {
  const found = CODE.exec(location.hash);
  if (found) {
    history.replaceState(null, "", location.pathname + location.search);
    try {
      await signIn(found[1]);
      return;
    } catch {
      // a code is good once: this browser may be signed in all the same
    }
  }
  isSignedIn.value = await ask("/v1/session").then(
    () => true,
    () => false,
  );
}
