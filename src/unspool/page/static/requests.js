// Requests that the cookie alone does not open: they carry the key of the page. Unlike the cookie, the browser keeps that for
// one port of one host, and gives it to no other server.

export function pageKey() {
  try {
    return localStorage.getItem("unspool-key") ?? "";
  } catch {
    return ""; // storage is switched off
  }
}

export function ask(url) {
  return fetch(url, { headers: { "X-Unspool": pageKey() }, credentials: "same-origin" });
}

// Server-sent events, as `EventSource` reads them. That cannot send a header.
//
// `watch` may have: `connected()` and `lost()`, called when the connection begins and ends; `silence`, the milliseconds
// without a byte after which a connection counts as lost (the server sends a comment more often); `longest`, the most
// milliseconds between two attempts.
export function openStream(url, handlers, refused = () => {}, watch = {}) {
  const control = new AbortController();
  const { connected = () => {}, lost = () => {}, silence = 0, longest = 30000 } = watch;
  let last = "";
  let wait = 1000;
  let wake = () => {};

  async function connect() {
    const headers = { Accept: "text/event-stream", "X-Unspool": pageKey() };
    if (last) headers["Last-Event-ID"] = last;
    const attempt = new AbortController();
    const end = () => attempt.abort();
    control.signal.addEventListener("abort", end);
    let timer = 0;
    const heard = () => {
      clearTimeout(timer);
      if (silence) timer = setTimeout(end, silence);
    };
    try {
      heard();
      await listen(await fetch(url, { headers, credentials: "same-origin", cache: "no-store", signal: attempt.signal }), heard);
    } finally {
      clearTimeout(timer);
      control.signal.removeEventListener("abort", end);
    }
  }

  async function listen(answer, heard) {
    if (answer.status === 401 || answer.status === 403 || answer.status === 404) {
      control.abort();
      refused(answer.status);
    }
    if (!answer.ok) return;
    connected();
    let text = "";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      wait = 1000;
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) take(event);
    }
  }

  function take(text) {
    const event = { type: "message", data: "" };
    for (const line of text.split("\n")) {
      const at = line.indexOf(":");
      const [name, value] = at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, "")];
      if (name === "event") event.type = value;
      else if (name === "data") event.data += (event.data && "\n") + value;
      else if (name === "id") last = value;
    }
    if (!event.data) return;
    try {
      handlers[event.type]?.({ data: event.data, lastEventId: last });
    } catch (error) {
      console.error(error); // a mistake in a handler does not end the stream
    }
  }

  async function run() {
    while (!control.signal.aborted) {
      try {
        await connect();
      } catch {
        // The server does not answer, or this page has closed the stream.
      }
      if (control.signal.aborted) return;
      lost();
      await new Promise((resolve) => { wake = resolve; setTimeout(resolve, wait); });
      wait = Math.min(wait * 2, longest);
    }
  }

  run();
  return { close: () => control.abort(), retry: () => wake() };
}
