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

export function go(hash) {
  location.hash = hash;
}

export function watch() {
  addEventListener("hashchange", () => {
    const next = read();
    const { page, id, other } = route.value;
    // within one run the address tells what is looked at, and that is the viewer's
    if (next.page !== page || next.id !== id || next.other !== other) route.value = next;
  });
}
