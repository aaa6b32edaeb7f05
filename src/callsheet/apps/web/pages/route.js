// The current page, from the URL.
import { signal } from "@preact/signals";

const PAGES = ["runs", "run", "plans", "plan", "tools", "tool", "policy"];

function read() {
  const params = new URLSearchParams(location.hash.slice(1));
  const page = PAGES.find((name) => params.has(name)) || "runs";
  const other = params.get("other") || "";
  return { page, id: params.get(page) || "", other, like: params.get("like") || "" };
}

export const route = signal(read());

// Goes to another page; resolves when the URL has changed, so that a button can stay busy until then.
export function go(hash) {
  const address = location.href;
  location.hash = hash;
  if (location.href === address) return Promise.resolve();
  return new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
}

export function watch() {
  addEventListener("hashchange", () => {
    const next = read();
    // within a run, the viewer itself handles changes of the URL
    if (["page", "id", "other", "like"].some((part) => next[part] !== route.value[part])) route.value = next;
  });
}
