// What a page holds compressed, as zlib in base64: the spans, the provenance.

export async function unpacked(packed) {
  const data = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}
