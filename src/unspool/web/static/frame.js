// What every page has: keys, the palette, the theme, how many sessions need somebody.
import { say as toast } from "./copy.js";
import { keys, listen, table } from "./keys.js";
import { palette } from "./palette.js";
import { pageKey } from "./requests.js";

const root = document.documentElement;
const themes = ["", "dark", "light"];

function nextTheme() {
  const theme = themes[(themes.indexOf(root.dataset.theme ?? "") + 1) % themes.length];
  if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
  try {
    if (theme) localStorage.setItem("theme", theme); else localStorage.removeItem("theme");
  } catch {
    // Storage is switched off: it lasts until the next page.
  }
  toast(theme ? `${theme} colours` : "colours of the system");
}

export { toast };

// The browser's storage was emptied, or another server has taken this one's place.
export function refused() {
  toast("this browser is signed out: open the newest link in the terminal of `unspool serve`");
}

function help() {
  const dialog = document.getElementById("keys");
  const list = dialog.querySelector("dl");
  list.replaceChildren(...table().flatMap(({ key, words }) => {
    const term = document.createElement("dt"), meaning = document.createElement("dd"), cap = document.createElement("kbd");
    cap.textContent = key;
    term.append(cap);
    meaning.textContent = words;
    return [term, meaning];
  }));
  dialog.showModal();
}

const go = (path) => () => location.assign(path);

keys([
  { key: "?", words: "these keys", run: help },
  { key: "Ctrl-K", words: "go anywhere", run: () => palette(refused) },
  { key: "g i", words: "inbox", run: go("/") },
  { key: "g s", words: "sessions", run: go("/sessions") },
  { key: "g f", words: "search", run: go("/search") },
  { key: "g u", words: "usage", run: go("/usage") },
  { key: "g n", words: "insights", run: go("/insights") },
  { key: "t", words: "theme", run: nextTheme },
  { key: "/", words: "to the search field", run: () => document.querySelector("main input[type=search]")?.focus() },
]);
listen();

for (const field of document.querySelectorAll("form[method=post] input[name=token]")) field.value ||= pageKey();

document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("help").addEventListener("click", help);
document.getElementById("goto").addEventListener("click", () => palette(refused));

// On a narrow screen the pages are behind a button.
const menu = document.querySelector(".rail .menu");
menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(menu.ariaExpanded !== "true")));
document.querySelector(".rail").addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || menu.ariaExpanded !== "true") return;
  event.preventDefault();
  menu.setAttribute("aria-expanded", "false");
  menu.focus();
});
const needing = document.getElementById("needing");
new MutationObserver(() => { menu.querySelector(".count").textContent = needing.textContent; }).observe(needing, { childList: true });

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.querySelector(".close")?.addEventListener("click", () => dialog.close());
}
