// Applies the changes that a server sends to the current document. Neither is modified.

// `changes` is { set: [[path, value]], rows: [[path, length, [[place, row]]]], texts: [[path, line, count, lines]] }.
export function applyChanges(data, changes) {
  let result = data;
  for (const [path, value] of changes.set) result = put(result, path, () => value);
  for (const [path, length, others] of changes.rows) {
    result = put(result, path, (old) => {
      const rows = old.slice(0, length);
      for (const [place, row] of others) rows[place] = row;
      return rows;
    });
  }
  for (const [path, line, count, others] of changes.texts) {
    result = put(result, path, (old) => {
      const lines = old.split("\n");
      return [...lines.slice(0, line), ...others, ...lines.slice(line + count)].join("\n");
    });
  }
  return result;
}

// Returns a copy of the data with the part at a path replaced by `change(part)`.
function put(data, path, change) {
  if (!path.length) return change(data);
  const [key, ...rest] = path;
  return { ...data, [key]: put(data[key], rest, change) };
}
