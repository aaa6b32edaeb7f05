// A document that has grown: what a server says has changed, put into the one that is there. Neither is changed.

// `told` is { set: [[path, value]], rows: [[path, length, [[place, row]]]], texts: [[path, line, count, lines]] }.
export function grown(data, told) {
  let made = data;
  for (const [path, value] of told.set) made = put(made, path, () => value);
  for (const [path, length, others] of told.rows) {
    made = put(made, path, (old) => {
      const rows = old.slice(0, length);
      for (const [place, row] of others) rows[place] = row;
      return rows;
    });
  }
  for (const [path, line, count, others] of told.texts) {
    made = put(made, path, (old) => {
      const lines = old.split("\n");
      return [...lines.slice(0, line), ...others, ...lines.slice(line + count)].join("\n");
    });
  }
  return made;
}

// The data with what `change` makes of the part at a path.
function put(data, path, change) {
  if (!path.length) return change(data);
  const [key, ...rest] = path;
  return { ...data, [key]: put(data[key], rest, change) };
}
