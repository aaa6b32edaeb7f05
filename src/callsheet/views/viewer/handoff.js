// Assembles the hand-off after any step from its parts; equal to the output of `callsheet lctl emit --step`.

const WIDE = 100;

// The index of the last boundary up to an event, or -1 if no step had finished.
export function boundaryAt(steps, seq) {
  let found = -1;
  steps.at.forEach(([at], n) => {
    if (at <= seq) found = n;
  });
  return found;
}

export function boundary(steps, n) {
  const [seq, label, entries, facts, head, tail, warnings] = steps.at[n];
  return { seq, label, entries, facts, head, tail, warnings };
}

// The document at a boundary, as text.
export function documentAt(steps, n) {
  const { entries, facts, head, tail, warnings } = boundary(steps, n);
  const critical = criticalAt(steps, n);
  const known = steps.facts.slice(0, facts);
  const fit = known.filter(([, isFit]) => isFit).map(([id]) => id);
  const parts = [head, "trace:\n", ...steps.entries.slice(0, entries)];
  if (known.length) parts.push("facts:\n", ...known.map(([, , text]) => text));
  parts.push(
    handoffSection(
      fit.filter((id) => critical.has(id)),
      fit.filter((id) => !critical.has(id)),
      warnings,
    ),
    tail,
  );
  return parts.join("");
}

function criticalAt(steps, n) {
  const found = new Set();
  for (const row of steps.at.slice(0, n + 1)) {
    for (const id of row[8]) found.delete(id);
    for (const id of row[7]) found.add(id);
  }
  return found;
}

function handoffSection(critical, context, warnings) {
  if (!critical.length && !context.length && !warnings) return "handoff: {critical_facts: []}\n";
  const lists = [listed("critical_facts", critical), context.length ? listed("context_facts", context) : ""];
  return `handoff:\n${lists.join("")}${warnings}`;
}

// A list of ids as YAML, on one line if it is short enough.
function listed(name, ids) {
  const line = `[${ids.join(", ")}]`;
  const head = `  ${name}:`;
  if (head.length + line.length < WIDE || !ids.length) return `${head} ${line}\n`;
  return `${head}\n${ids.map((id) => `    - ${id}\n`).join("")}`;
}
