// Lists: menus with many values, rows that come when they are scrolled to, and keys on every list. Without this, a form and links do it.
import { keys } from "./keys.js";
import { ask, pageKey } from "./requests.js";

for (const form of document.querySelectorAll("form[data-submits]")) {
  form.querySelector(":scope > button:not([name])")?.toggleAttribute("hidden", true);
  form.addEventListener("change", (event) => {
    if (event.target.matches("select, input[type=date]")) form.requestSubmit();
  });
}
// Addresses without empty parts.
for (const form of document.querySelectorAll("form.filters")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  });
  addEventListener("pageshow", () => { for (const field of form.elements) field.disabled = false; });
}

// Menus: type to filter; values that the page does not have are asked for. What was changed takes effect when the menu closes.
for (const menu of document.querySelectorAll("details.menu")) {
  const field = menu.querySelector(".narrows"), list = menu.querySelector("ul"), form = menu.closest("form");
  let changed = false, asked = 0;
  field.hidden = false;

  menu.addEventListener("toggle", () => {
    if (menu.open) {
      for (const other of document.querySelectorAll("details.menu[open]")) if (other !== menu) other.open = false;
      field.focus();
    } else if (changed) {
      form.requestSubmit();
    }
  });
  list.addEventListener("change", () => { changed = true; });
  field.addEventListener("input", async () => {
    const words = field.value.trim().toLowerCase(), mine = ++asked;
    for (const item of list.children) item.hidden = !item.querySelector(".value").textContent.toLowerCase().includes(words);
    if (!words || !("cut" in menu.dataset)) return;
    const query = new URLSearchParams(location.search);
    query.set("facet", menu.dataset.facet);
    query.set("find", words);
    const answer = await ask(`/sessions/values.json?${query}`);
    if (!answer.ok || mine !== asked) return;
    const { values } = await answer.json();
    const known = new Set([...list.querySelectorAll("input")].map((box) => box.value));
    list.append(...values.slice(0, 100).filter(({ value }) => !known.has(value)).map((one) => entry(menu.dataset.facet, one)));
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      changed = false;
      menu.open = false;
      menu.querySelector("summary").focus();
    } else if (event.key === "Enter" && event.target === field) {
      event.preventDefault();
      const first = [...list.children].find((item) => !item.hidden)?.querySelector("input");
      if (field.value.trim() && first) first.checked = true;
      form.requestSubmit();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.closest(".values")) {
      event.preventDefault();
      const boxes = [...list.querySelectorAll("li:not([hidden]) input")];
      const at = boxes.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      (at < 0 ? field : boxes[Math.min(at, boxes.length - 1)])?.focus();
    }
  });
}
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

function entry(name, { value, sessions }) {
  const item = document.createElement("li"), label = document.createElement("label"), box = document.createElement("input");
  const text = document.createElement("span"), count = document.createElement("span");
  box.type = "checkbox";
  box.name = name;
  box.value = value;
  text.className = "value";
  text.textContent = text.title = value;
  count.className = "faint";
  count.textContent = sessions;
  label.append(box, text, count);
  item.append(label);
  return item;
}

// Rows that come when they are scrolled to.
const rows = document.getElementById("rows");
let busy = false;
const keyOf = (row) => row.dataset.session ?? `group ${row.dataset.group}`;

async function more(link) {
  if (busy) return;
  busy = true;
  try {
    const answer = await fetch(link.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const known = new Set([...rows.children].map(keyOf));
    const fresh = [...(page.getElementById("rows")?.children ?? [])].filter((row) => !known.has(keyOf(row)));
    rows.append(...fresh);
    const next = page.getElementById("next");
    if (next) link.href = next.getAttribute("href"); else link.closest("p").remove();
  } finally {
    busy = false;
  }
  if (link.isConnected) { watcher.unobserve(link); watcher.observe(link); }
}

const watcher = new IntersectionObserver((seen) => {
  for (const one of seen) if (one.isIntersecting) more(one.target);
}, { rootMargin: "600px" });
const link = document.getElementById("next");
// After the first paint: more rows before it would delay it.
if (rows && link) requestAnimationFrame(() => setTimeout(() => watcher.observe(link)));

// Keys: the entries of a list are its rows and items with a link. The chosen one has the focus, so that Enter opens it.
const ENTRIES = "main .hits li, main table tbody tr";
const entries = () => [...document.querySelectorAll(ENTRIES)].filter((one) => one.querySelector("a[href]") && one.checkVisibility());

export function chosen() {
  return document.activeElement?.closest("[data-chosen]") ?? document.querySelector("main [data-chosen]");
}

function choose(one) {
  if (!one) return;
  for (const other of document.querySelectorAll("[data-chosen]")) delete other.dataset.chosen;
  one.dataset.chosen = "";
  one.querySelector("a[href]").focus({ preventScroll: true });
  one.scrollIntoView({ block: "nearest" });
}

function move(step) {
  const all = entries(), at = all.indexOf(chosen());
  choose(all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + step))]);
}

if (document.querySelector(ENTRIES) || rows) {
  keys([
    { key: "j", words: "next entry", run: () => move(1) },
    { key: "k", words: "previous entry", run: () => move(-1) },
    { key: "Enter", words: "open the entry", run: (event) => {
      const link = event.target.closest?.("a[href], button, summary") ?? (chosen() ?? document.querySelector("main .hits li"))?.querySelector("a[href]"); // of hits, the best
      link?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window })); // links in SVG have no `click()`
    } },
    { key: "g g", words: "first entry", run: () => choose(entries()[0]) },
    { key: "G", words: "last entry", run: () => choose(entries().at(-1)) },
  ]);
}
if (document.querySelector(".hits")) {
  keys([
    { key: "n", words: "next hit", run: () => move(1) },
    { key: "N", words: "previous hit", run: () => move(-1) },
  ]);
}

// Stars change without loading the page again; the form does the same without scripts.
async function toggleStar(button) {
  const isOn = button.name === "unstar";
  const answer = await fetch("/notes/star", {
    method: "POST", redirect: "manual", credentials: "same-origin",
    headers: { "X-Unspool": pageKey(), "Content-Type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ [button.name]: button.value }),
  });
  if (!answer.ok && answer.type !== "opaqueredirect") return;
  button.name = isOn ? "star" : "unstar";
  button.classList.toggle("on", !isOn);
  button.title = isOn ? "star" : "remove the star";
  button.firstChild.textContent = isOn ? "☆" : "★";
  const words = button.querySelector(".away");
  words.textContent = words.textContent.replace(isOn ? "remove the star of" : "star", isOn ? "star" : "remove the star of");
}

const stars = document.getElementById("stars");
if (stars) {
  stars.addEventListener("submit", (event) => {
    if (!event.submitter) return;
    event.preventDefault();
    toggleStar(event.submitter);
  });
  keys([
    { key: "s", words: "star the session", run: () => { const button = chosen()?.querySelector(".star button"); if (button) toggleStar(button); } },
    { key: "m", words: "notes and tags of the session", run: () => {
      const id = chosen()?.dataset.session;
      const back = location.pathname + location.search;
      if (id) location.assign(`/notes/${encodeURIComponent(id)}?back=${encodeURIComponent(back)}`);
    } },
  ]);
}
