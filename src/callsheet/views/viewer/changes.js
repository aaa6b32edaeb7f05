// Applies the changes that a server sends to the current document. Neither is modified.

// `changes` is { set: [[path, value]], rows: [[path, length, [[place, row]]]], texts: [[path, line, count, lines]] }.
export function applyChanges(data, changes) {
  let made = data;
  for (const [path, value] of changes.set) made = put(made, path, () => value);
  for (const [path, length, others] of changes.rows) {
    made = put(made, path, (old) => {
      const rows = old.slice(0, length);
      for (const [place, row] of others) rows[place] = row;
      return rows;
    });
  }
  for (const [path, line, count, others] of changes.texts) {
    made = put(made, path, (old) => {
      const lines = old.split("\n");
      return [...lines.slice(0, line), ...others, ...lines.slice(line + count)].join("\n");
    });
  }
  return made;
}

// Returns a copy of the data with the part at a path replaced by `change(part)`.
function put(data, path, change) {
  if (!path.length) return change(data);
  const [key, ...rest] = path;
  return { ...data, [key]: put(data[key], rest, change) };
}
