// The stream of a page that updates itself, and what the page says about it: whether it is up to date, whether it has lost
// its server, or whether this browser has to sign in again.
import { openStream } from "./requests.js";

// The server sends a comment every five seconds: after twelve without one, nobody is there.
const SILENCE = 12000;
const LONGEST_WAIT = 4000;

export function keepConnected(place, address, handlers) {
  let source = null;
  let state = "connecting";

  function say(next, ...words) {
    state = next;
    place.hidden = !words.length;
    place.replaceChildren(...words);
    document.documentElement.dataset.connection = next;
  }

  function code(text) {
    const made = document.createElement("code");
    made.textContent = text;
    return made;
  }

  function connected() {
    if (state !== "connected") say("connected");
  }

  function lost() {
    if (state !== "lost") say("lost", "Connection lost, retrying. What you see is as of ", new Date().toLocaleTimeString(), ".");
  }

  function refused() {
    source = null;
    say("signed-out", "This page is signed out: the server was restarted. Open the newest link that ", code("unspool serve"),
      " printed in its terminal. If it does not run, start it: it prints one.");
  }

  function open() {
    source ??= openStream(address(), handlers, refused, { connected, lost, silence: SILENCE, longest: LONGEST_WAIT });
  }

  function close() {
    source?.close();
    source = null;
    if (state === "connected") say("closed");
  }

  // Another tab has used a new link: the key of the page is in the storage that both share.
  addEventListener("storage", (event) => { if (event.key === "unspool-key" && event.newValue) open(); });
  addEventListener("online", () => source?.retry());
  return { open, close, isUpToDate: () => state === "connected" || state === "connecting" };
}
