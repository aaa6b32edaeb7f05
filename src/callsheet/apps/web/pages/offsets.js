// Offsets in a text: the server counts characters, a browser UTF-16 units.

// The UTF-16 offset of each offset in characters.
export function unitsOf(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (at) => Math.min(at, text.length);
  const starts = [];
  let at = 0;
  for (const char of text) {
    starts.push(at);
    at += char.length;
  }
  starts.push(at);
  return (place) => starts[Math.min(place, starts.length - 1)];
}

export const charactersBefore = (text, at) => [...text.slice(0, at)].length;
