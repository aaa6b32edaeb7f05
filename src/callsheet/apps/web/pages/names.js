// Names in the text of a plan: F12 goes to the definition, F2 gives another name; the server knows what they mean.
import { charactersBefore, unitsOf } from "./offsets.js";
import { request } from "./session.js";

const bodyAt = (state, at, now) => {
  const text = state.doc.toString();
  return { plan: text, at: charactersBefore(text, at), ...now.current.terms };
};

// Moves the cursor to the definition of the name at it; from there to its next place.
export function goToDefinition(cm, view, now, at = view.state.selection.main.head) {
  const before = view.state.doc;
  request("/v1/editor/name", { body: bodyAt(view.state, at, now) }).then(
    ({ definitions, places }) => {
      if (view.state.doc !== before) return;
      const units = unitsOf(before.toString());
      const starts = (spans) => spans.map((span) => [units(span.start), units(span.end)]);
      const isHere = ([start, end]) => start <= at && at <= end;
      const all = starts(places);
      const here = all.findIndex(isHere);
      const away = starts(definitions).find((span) => !isHere(span)) || (here >= 0 && all[(here + 1) % all.length]);
      if (!away) return;
      view.dispatch({ selection: { anchor: away[0], head: away[1] }, effects: cm.EditorView.scrollIntoView(away[0]) });
      view.focus();
    },
    () => {},
  );
  return true;
}

// The field that asks for another name, as a tooltip at the old one.
export function renameField(cm, now) {
  const set = cm.StateEffect.define();
  const field = cm.StateField.define({
    create: () => null,
    update(shown, change) {
      const told = change.effects.find((effect) => effect.is(set));
      return told ? told.value : change.docChanged ? null : shown;
    },
    provide: (of) => cm.showTooltip.from(of),
  });
  const close = (view) => {
    view.dispatch({ effects: set.of(null) });
    view.focus();
  };
  const open = (view) => {
    const { state } = view;
    const before = state.doc;
    const body = bodyAt(state, state.selection.main.head, now);
    request("/v1/editor/name", { body }).then(
      ({ name, places }) => {
        if (!name || view.state.doc !== before) return;
        const units = unitsOf(body.plan);
        const old = body.plan.slice(units(name.start), units(name.end));
        const create = () => asked(old, places.length, rename, () => close(view));
        view.dispatch({ effects: set.of({ pos: units(name.start), above: true, create }) });
      },
      () => {},
    );
    const rename = async (text) => {
      const { edits, why } = await request("/v1/editor/rename", { body: { ...body, name: text } });
      if (why) throw new Error(why);
      if (view.state.doc !== before) return;
      const units = unitsOf(body.plan);
      const changes = edits.map((edit) => ({ from: units(edit.start), to: units(edit.end), insert: edit.text }));
      view.dispatch({ changes, userEvent: "input.rename" });
      close(view);
    };
    return true;
  };
  return { field, open };
}

function asked(old, count, rename, close) {
  const dom = document.createElement("form");
  dom.className = "rename";
  const label = document.createElement("label");
  label.textContent = `Rename ${old} (${count} ${count === 1 ? "place" : "places"}) `;
  const input = document.createElement("input");
  input.value = old;
  input.spellcheck = false;
  const problem = document.createElement("p");
  problem.setAttribute("role", "alert");
  label.append(input);
  dom.append(label, problem);
  dom.addEventListener("submit", (event) => {
    event.preventDefault();
    problem.textContent = "";
    if (input.value === old) close();
    else rename(input.value.trim()).catch((error) => (problem.textContent = error.message));
  });
  dom.addEventListener("keydown", (event) => {
    event.stopPropagation(); // keys of the text do not count here
    if (event.key === "Escape") close();
  });
  return { dom, mount: () => input.select() };
}
