// Ctrl-K: pages, sessions and projects by a few letters. Enter goes there, the arrows choose.
import { ask } from "./requests.js";

let asked = 0;

export function palette(refused) {
  const dialog = document.getElementById("palette");
  if (dialog.open) { dialog.close(); return; }
  const field = dialog.querySelector("input");
  field.value = "";
  dialog.showModal();
  field.focus();
  show(dialog, "", refused);
  field.oninput = () => show(dialog, field.value, refused);
  field.onkeydown = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(dialog, event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      dialog.querySelector('[aria-selected="true"] a')?.click();
    }
  };
}

async function show(dialog, words, refused) {
  const mine = ++asked;
  const answer = await ask(`/palette.json?q=${encodeURIComponent(words)}`);
  if (answer.status === 401 || answer.status === 403) refused();
  if (!answer.ok || mine !== asked) return;
  const { places } = await answer.json();
  dialog.querySelector("ul").replaceChildren(...places.map((place, number) => {
    const item = document.createElement("li"), link = document.createElement("a");
    const title = document.createElement("span"), note = document.createElement("span");
    title.textContent = place.title;
    note.textContent = place.note;
    note.className = "faint";
    link.href = place.href;
    link.append(title, note);
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", String(number === 0));
    item.append(link);
    return item;
  }));
}

function choose(dialog, step) {
  const items = [...dialog.querySelectorAll("li")];
  const at = items.findIndex((item) => item.getAttribute("aria-selected") === "true");
  const next = Math.max(0, Math.min(items.length - 1, at + step));
  items.forEach((item, number) => item.setAttribute("aria-selected", String(number === next)));
  items[next]?.scrollIntoView({ block: "nearest" });
}
