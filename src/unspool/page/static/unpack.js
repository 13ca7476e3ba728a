// Starts a file that stands alone: its script, and the styles of what that opens, are compressed. The policy names the hashes of
// what comes out, so that nothing else can run.

for (const tag of ["style", "script"]) {
  const packed = Uint8Array.from(atob(document.getElementById(`packed-${tag}`).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const started = document.createElement(tag);
  if (tag === "script") started.type = "module";
  started.textContent = await new Response(stream).text();
  document.body.append(started);
}
