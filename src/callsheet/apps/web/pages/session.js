// Requests to the API, and signing in with the code in the URL that `callsheet serve` prints, or with the token.
import { signal } from "@preact/signals";

export const isSignedIn = signal(null); // null until known

// An error response of the API, with its problem document and diagnostics.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the server answered ${status}`);
    this.status = status;
    this.problem = problem;
    this.diagnostics = problem.diagnostics || [];
  }
}

// Returns the data of a path; a `body` makes the request a POST. Throws Refused, or an Error if the server is gone.
// With `as: "text"` the data is the text of the response.
export async function request(path, { method, body, signal: abort, as = "json" } = {}) {
  // pages of other sites cannot send this header, and the server requires it for changes
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
  const data = await bodyOf(answer, as);
  if (answer.status === 401 && !path.endsWith("/session")) isSignedIn.value = false;
  if (!answer.ok) throw new Refused(answer.status, data);
  return data;
}

// The data of a response. An error may come without any, for all else it must be whole.
async function bodyOf(answer, as) {
  if (!answer.ok) return answer.json().catch(() => ({}));
  try {
    return await (as === "text" ? answer.text() : answer.json());
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the answer of the server broke off");
  }
}

export const person = signal(""); // the name, where people are known by name
export const roles = signal([]); // that person's roles

export async function signIn(secret) {
  await request("/v1/session", { body: { secret } });
  isSignedIn.value = await isSession();
}

// Whether the browser is signed in, and as whom.
const isSession = () =>
  request("/v1/session").then(
    (session) => {
      person.value = session.person;
      roles.value = session.roles;
      return true;
    },
    () => false,
  );

export async function signOut() {
  await request("/v1/session", { method: "DELETE" });
  isSignedIn.value = false;
}

const CODE = /^#code=([\w-]+)(?:&([^#]*))?$/; // the rest is where to go then

// Signs in, also when a URL with a code is opened in an existing page.
export function start() {
  addEventListener("hashchange", () => CODE.test(location.hash) && signInByAddress());
  return signInByAddress();
}

// Removes the code from the URL, so that it is not in the history, and signs in with it.
async function signInByAddress() {
  const found = CODE.exec(location.hash);
  if (found) {
    history.replaceState(null, "", `${location.pathname}${location.search}${found[2] ? `#${found[2]}` : ""}`);
    dispatchEvent(new HashChangeEvent("hashchange"));
    try {
      await signIn(found[1]);
      return;
    } catch {
      // a code is valid once; this browser may be signed in already
    }
  }
  isSignedIn.value = await isSession();
}
