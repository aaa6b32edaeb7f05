// Keyboard shortcuts: single keys, except while text is entered.
import { goTo, isHelpOpen, link, lower, model, nextStep, nextTheme, play, seq, tab, TABS } from "./state.js";
import { copy } from "./ui.js";
import { nextHit } from "./search.js";

const MOVES = {
  j: () => nextStep(1),
  k: () => nextStep(-1),
  l: () => goTo(seq.value + 1),
  h: () => goTo(seq.value - 1),
  L: () => goTo(seq.value + 10),
  H: () => goTo(seq.value - 10),
  g: () => goTo(1),
  G: () => goTo(model.value.last),
  " ": play,
  f: () => (lower.value = "facts"),
  w: () => (lower.value = "lineage"),
  c: () => (lower.value = "confidence"),
  i: () => (lower.value = "findings"),
  d: () => (lower.value = "diff"),
  n: () => nextHit(1),
  N: () => nextHit(-1),
  y: () => copy(location.href.split("#")[0] + link(), () => {}),
  t: nextTheme,
  "?": () => (isHelpOpen.value = true),
  "/": () => document.getElementById("search").focus(),
};
TABS.forEach((name, n) => (MOVES[String(n + 1)] = () => (tab.value = name)));

export function listen() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !model.value) return;
    if (isHelpOpen.value) {
      if (event.key === "Escape") isHelpOpen.value = false; // also before the dialog has been rendered
      return;
    }
    const { tagName, type } = event.target;
    if (
      tagName === "TEXTAREA" ||
      tagName === "SELECT" ||
      (tagName === "INPUT" && type !== "range" && type !== "checkbox")
    )
      return;
    if (event.key === " " && tagName !== "BODY" && tagName !== "DIV") return; // the space key activates the focused element
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  });
}
