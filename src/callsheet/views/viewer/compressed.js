// Decompresses the parts of the data that are zlib in base64: spans and provenance.

export async function decompressed(packed) {
  const data = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}
