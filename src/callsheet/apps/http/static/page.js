// The list of runs, for who has signed in.

import { ask, signIn, signInByAddress } from "./session.js";

const state = document.getElementById("state");
const form = document.getElementById("sign-in");
const table = document.getElementById("runs");

async function show() {
  const { runs } = await (await ask("/v1/runs")).json();
  const rows = runs.map((run) => {
    const row = document.createElement("tr");
    for (const text of [run.run_id, run.status, run.plan, run.created]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      row.append(cell);
    }
    return row;
  });
  table.tBodies[0].replaceChildren(...rows);
  table.hidden = rows.length === 0;
  state.textContent = rows.length === 0 ? "There are no runs yet." : `${rows.length} runs`;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const secret = document.getElementById("secret");
  if (await signIn(secret.value.trim())) {
    form.hidden = true;
    secret.value = "";
    await show();
  } else {
    state.textContent = "That is not the token.";
  }
});

if (await signInByAddress()) {
  await show();
} else {
  state.textContent = "Sign in with the token that callsheet serve printed.";
  form.hidden = false;
}
