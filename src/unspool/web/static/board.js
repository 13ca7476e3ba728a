// The board keeps itself up to date: the server sends its rows anew when they have changed, and they are morphed into
// place, so that focus, selection and scroll stay where they are. Seconds that pass are counted here.
import { keepConnected } from "./connection.js";
import { toast } from "./frame.js";
import { keys } from "./keys.js";

const board = document.getElementById("board");
const button = document.getElementById("notify");
let needing = null;
const address = () => `/events?from=${encodeURIComponent(board.dataset.position)}`;
const connection = keepConnected(document.getElementById("connection"), address, { board: show });

function wantsNotices() {
  return "Notification" in window && Notification.permission === "granted" && localStorage.getItem("notify") === "yes";
}

function show(event) {
  const news = JSON.parse(event.data);
  board.dataset.position = event.lastEventId;
  Idiomorph.morph(board, news.html, { morphStyle: "innerHTML" });
  document.getElementById("mode").textContent = news.mode;
  document.getElementById("needing").textContent = news.needing.length || "";
  document.title = `${news.needing.length ? `(${news.needing.length}) ` : ""}Live · unspool`;
  tell(news.needing);
  tick();
}

function tell(now) {
  const before = needing;
  needing = new Map(now.map((one) => [one.key, one.words]));
  if (before === null || !wantsNotices()) return;
  for (const one of now)
    if (before.get(one.key) !== one.words) {
      const notice = new Notification(one.title, { body: one.words, tag: one.key });
      notice.onclick = () => { window.focus(); location.assign(one.href); };
    }
}

function passed(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d`;
}

function tick() {
  // Seconds that nobody confirms are not counted: a clock that runs says that the page knows.
  if (!connection.isUpToDate()) return;
  const now = Date.now() / 1000;
  for (const time of board.querySelectorAll("time[data-since]")) time.textContent = passed(now - Number(time.dataset.since));
  for (const time of board.querySelectorAll("time[data-age]")) time.textContent = `${passed(now - Number(time.dataset.age)).replace(/ min .*/, " min")} ago`;
}

function step(by) {
  const rows = [...board.querySelectorAll("td.title a")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
}

if ("Notification" in window && !wantsNotices()) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    if (await Notification.requestPermission() !== "granted") { toast("the browser does not allow notifications"); return; }
    localStorage.setItem("notify", "yes");
    button.hidden = true;
    toast("notifications are on while this page is open");
  });
}
keys([
  { key: "j", words: "next session", run: () => step(1) },
  { key: "k", words: "session before", run: () => step(-1) },
]);
// A browser opens six connections to one server: a page that nobody looks at gives its own back.
document.addEventListener("visibilitychange", () => (document.hidden && !wantsNotices() ? connection.close() : connection.open()));
connection.open();
tick();
setInterval(tick, 1000);
