// Explanations of the server in the part of Markdown that it writes, as elements: never as HTML.
const INLINE = /\\([\\`*_{}[\]<>#|~&])|`([^`]+)`|\*\*((?:\\.|[^*])+)\*\*|(?<![\w\\])_((?:\\.|[^_])+)_(?!\w)/g;

// An element with these texts.
export function markdown(text) {
  const shown = document.createElement("div");
  shown.className = "markdown";
  const lines = text.split("\n");
  for (let n = 0; n < lines.length; n += 1) {
    if (lines[n].startsWith("```")) {
      const end = lines.indexOf("```", n + 1);
      const last = end < 0 ? lines.length : end;
      shown.append(element("pre", lines.slice(n + 1, last).join("\n")));
      n = last;
      continue;
    }
    const [name, begin] = kindOf(lines[n]);
    const part = [];
    while (n < lines.length && lines[n].trim() && !lines[n].startsWith("```") && kindOf(lines[n])[0] === name) {
      part.push(lines[n].slice(begin.length));
      n += 1;
    }
    if (!part.length) continue;
    n -= 1;
    if (name === "ul") shown.append(listOf(part));
    else shown.append(filled(document.createElement(name), part.join(" ")));
  }
  return shown;
}

function kindOf(line) {
  if (line.startsWith("- ")) return ["ul", "- "];
  return line.startsWith(">") ? ["blockquote", line.startsWith("> ") ? "> " : ">"] : ["p", ""];
}

function listOf(lines) {
  const list = document.createElement("ul");
  for (const line of lines) list.append(filled(document.createElement("li"), line));
  return list;
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

// Fills an element with a text, with its words in code, bold and italics.
function filled(into, text) {
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, escaped, code, bold, italic] = found;
    into.append(text.slice(at, found.index));
    at = found.index + whole.length;
    if (escaped) into.append(escaped);
    else if (code) into.append(element("code", code));
    else into.append(filled(document.createElement(bold ? "b" : "em"), bold || italic));
  }
  into.append(text.slice(at));
  return into;
}
