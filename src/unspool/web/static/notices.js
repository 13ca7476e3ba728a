// Notifications about sessions that need somebody. Whether they are wanted and which were told is kept in the browser's
// storage: a reload tells nothing twice and misses nothing, and of two tabs one tells.
const WANTED = "notify";
const TOLD = "unspool-told";

function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // storage is switched off
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // It lasts until the next page.
  }
}

function told() {
  try {
    const found = JSON.parse(read(TOLD));
    return found && typeof found === "object" ? found : null;
  } catch {
    return null;
  }
}

export const canNotify = () => "Notification" in window;
export const wantsNotices = () => canNotify() && Notification.permission === "granted" && read(WANTED) === "yes";

export async function switchNotices(on) {
  if (on && await Notification.requestPermission() !== "granted") return false;
  write(WANTED, on ? "yes" : "no");
  return true;
}

// What stands on the page when it is opened was told, unless an earlier page kept account of it.
export function tell(needing) {
  const before = told();
  write(TOLD, JSON.stringify(Object.fromEntries(needing.map((one) => [one.key, one.words]))));
  if (before === null || !wantsNotices()) return;
  for (const one of needing)
    if (before[one.key] !== one.words) {
      const notice = new Notification(one.title, { body: one.words, tag: one.key });
      notice.onclick = () => { window.focus(); location.assign(one.href); };
    }
}
