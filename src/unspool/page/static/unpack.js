// Starts a file that stands alone: its script is compressed. The policy names the hash of what comes out, so that nothing else
// can run.

const packed = Uint8Array.from(atob(document.getElementById("packed-script").textContent), (letter) => letter.charCodeAt(0));
const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
const started = document.createElement("script");
started.type = "module";
started.textContent = await new Response(stream).text();
document.body.append(started);
