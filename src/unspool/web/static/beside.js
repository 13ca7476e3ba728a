// The list of sessions beside a session: loaded on wide screens when it is open; whether it is open is remembered.
import { ask } from "./requests.js";
import { note } from "./keys.js";

const REFRESH = 60000;
const place = document.querySelector(".beside");
const button = place.querySelector("button");
const list = place.querySelector(".beside-list");
const wide = matchMedia("(min-width: 1600px)");
let loaded = 0;

const remembered = () => {
  try {
    return localStorage.getItem("beside") !== "closed";
  } catch {
    return true; // storage is switched off
  }
};

function remember(open) {
  try {
    localStorage.setItem("beside", open ? "open" : "closed");
  } catch {
    // storage is switched off: it holds for this page
  }
}

const links = () => [...list.querySelectorAll("li a")];

// One tab stop, which arrow keys move.
function stopAt(link) {
  for (const one of links()) one.tabIndex = one === link ? 0 : -1;
}

async function load() {
  if (!wide.matches || !place.classList.contains("open") || document.hidden) return;
  loaded = Date.now();
  const answer = await ask(place.dataset.src).catch(() => null);
  if (!answer?.ok) return; // the page says itself that the server is away
  const had = links().find((one) => one === document.activeElement)?.getAttribute("href");
  list.innerHTML = await answer.text();
  const here = list.querySelector("[aria-current]") ?? links()[0];
  if (here) stopAt(here);
  const again = had && links().find((one) => one.getAttribute("href") === had);
  if (again) {
    stopAt(again);
    again.focus({ preventScroll: true });
  } else if (here) {
    place.scrollTop = Math.max(0, here.offsetTop - place.clientHeight / 3);
  }
}

function show(open) {
  place.classList.toggle("open", open);
  button.setAttribute("aria-expanded", String(open));
  button.textContent = open ? "Hide list" : "List";
  if (open && Date.now() - loaded > REFRESH) load();
}

function toggle() {
  const open = !place.classList.contains("open");
  remember(open);
  show(open);
}

button.addEventListener("click", toggle);
list.addEventListener("keydown", (event) => {
  const all = links();
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (at < 0 || to === undefined || !all[to]) return;
  event.preventDefault();
  stopAt(all[to]);
  all[to].focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "B" || event.ctrlKey || event.metaKey || event.altKey || !wide.matches) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  toggle();
});
note([{ key: "B", words: "list of sessions beside this one, on wide screens" }]);
wide.addEventListener("change", () => Date.now() - loaded > REFRESH && load());
document.addEventListener("visibilitychange", load);
setInterval(load, REFRESH);
show(remembered());
