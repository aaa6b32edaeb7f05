// Signs a browser in: by the code in the address that `callsheet serve` printed, or by the token.

/** Ask the API; changes carry the header that pages of other sites cannot send. */
export async function ask(path, options = {}) {
  const headers = { "X-Callsheet": "1", ...options.headers };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  return fetch(path, { ...options, headers, body, credentials: "same-origin", redirect: "error" });
}

/** Whether this browser is signed in. */
export async function isSignedIn() {
  return (await ask("/v1/session")).ok;
}

/** Sign in with a token or a code; whether that was one. */
export async function signIn(secret) {
  return (await ask("/v1/session", { method: "POST", body: { secret } })).ok;
}

/** Take the code out of the address, so that it stands in no history, and sign in with it. */
export async function signInByAddress() {
  const found = /^#code=([\w-]+)$/.exec(location.hash);
  if (found === null) return isSignedIn();
  history.replaceState(null, "", location.pathname + location.search);
  return (await signIn(found[1])) || isSignedIn();
}
