// Which page is shown: what stands in the address.
import { signal } from "@preact/signals";

const PAGES = ["runs", "run", "plans", "plan", "policy"];

function read() {
  const said = new URLSearchParams(location.hash.slice(1));
  const page = PAGES.find((name) => said.has(name)) || "runs";
  const other = said.get("other") || "";
  return { page, id: said.get(page) || "", other };
}

export const route = signal(read());

// Leads to another page; gives when it is there, so that what led to it can stay busy until then.
export function go(hash) {
  const address = location.href;
  location.hash = hash;
  if (location.href === address) return Promise.resolve();
  return new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
}

export function watch() {
  addEventListener("hashchange", () => {
    const next = read();
    const { page, id, other } = route.value;
    // within one run the address tells what is looked at, and that is the viewer's
    if (next.page !== page || next.id !== id || next.other !== other) route.value = next;
  });
}
