// The inbox keeps itself up to date: the server sends its sections anew when they have changed, and they are morphed into
// place, so that focus, selection and scroll stay where they are. Seconds that pass are counted here.
import { copyText } from "./copy.js";
import { keepConnected } from "./connection.js";
import { toast } from "./frame.js";
import { keys, note } from "./keys.js";
import { canNotify, switchNotices, tell, wantsNotices } from "./notices.js";
import { pageKey } from "./requests.js";

const board = document.getElementById("board");
const button = document.getElementById("notify");
const icon = document.querySelector("link[rel=icon]");
const address = () => `/events?from=${encodeURIComponent(board.dataset.position)}`;
const connection = keepConnected(document.getElementById("connection"), address, { inbox: show });

function show(event) {
  const news = JSON.parse(event.data);
  board.dataset.position = event.lastEventId;
  Idiomorph.morph(board, news.html, { morphStyle: "innerHTML" });
  document.getElementById("mode").textContent = news.mode;
  const count = news.notices.length;
  for (const place of document.querySelectorAll(".rail .count")) place.textContent = count || "";
  document.title = `${count ? `(${count}) ` : ""}Inbox · unspool`;
  icon.href = count ? `/icon/${count}.svg` : "/static/icon.svg";
  tell(news.notices);
  tick();
}

function passed(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d`;
}

function tick() {
  // Seconds that nobody confirms are not counted: a clock that runs says that the page knows.
  if (!connection.isUpToDate()) return;
  const now = Date.now() / 1000;
  for (const time of board.querySelectorAll("time[data-since]")) time.textContent = passed(now - Number(time.dataset.since));
}

const items = () => [...board.querySelectorAll("[data-item]")];
const current = () => document.activeElement?.closest?.("[data-item]");

function step(by) {
  const all = items();
  const at = all.indexOf(current());
  all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))]?.querySelector(".open").focus();
}

// Each kind of failure has links to the steps that failed; the newest is the first.
function failure(by) {
  const all = [...board.querySelectorAll("#section-failed .sessions")].map((one) => one.querySelector("a"));
  const at = all.findIndex((one) => one.parentElement.contains(document.activeElement));
  all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))]?.focus();
}

function copyCurrent() {
  const place = current() ?? items()[0];
  const from = place?.querySelector(".copy");
  if (from) copyText(from.dataset.copy, from.dataset.said);
}

function markSeen(fields) {
  return fetch("/inbox/seen", {
    method: "POST", body: new URLSearchParams(fields), headers: { "X-Unspool": pageKey() }, keepalive: true, credentials: "same-origin",
  });
}

function markCurrent() {
  const place = current();
  if (!place?.dataset.finished) return;
  const next = place.nextElementSibling ?? place.previousElementSibling;
  next?.querySelector(".open").focus();
  markSeen({ session: place.dataset.item, until: place.dataset.finished });
}

board.addEventListener("click", (event) => {
  const from = event.target.closest(".copy");
  if (from) copyText(from.dataset.copy, from.dataset.said);
  // Whoever opens a finished session has seen it.
  const opened = event.target.closest("a.open")?.closest("[data-finished]");
  if (opened) markSeen({ session: opened.dataset.item, until: opened.dataset.finished });
});
board.addEventListener("submit", (event) => {
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(event.target));
  delete fields.token;
  markSeen(fields).then((answer) => { if (!answer.ok) toast("this could not be saved"); });
});

function showSwitch() {
  button.hidden = !canNotify();
  button.setAttribute("aria-pressed", String(wantsNotices()));
  button.textContent = wantsNotices() ? "Notifications are on" : "Notify me";
}
button.addEventListener("click", async () => {
  const on = !wantsNotices();
  if (!await switchNotices(on)) toast("the browser does not allow notifications");
  else toast(on ? "notifications are on while this page is open" : "notifications are off");
  showSwitch();
});

keys([
  { key: "j", words: "next session", run: () => step(1) },
  { key: "k", words: "session before", run: () => step(-1) },
  { key: "e", words: "next failure of today", run: () => failure(1) },
  { key: "E", words: "failure before", run: () => failure(-1) },
  { key: "c", words: "copy the command that leads there", run: copyCurrent },
  { key: "x", words: "mark a finished session seen", run: markCurrent },
]);
note([{ key: "Enter", words: "open the session" }]);
// A browser opens six connections to one server: a page that nobody looks at gives its own back.
document.addEventListener("visibilitychange", () => (document.hidden && !wantsNotices() ? connection.close() : connection.open()));
showSwitch();
tell([...board.querySelectorAll(".ask")].map((one) => (
  { key: one.dataset.item, words: one.dataset.words, title: one.dataset.title, href: one.querySelector(".open").href })));
connection.open();
tick();
setInterval(tick, 1000);
