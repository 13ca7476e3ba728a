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
  let shown = show(dialog, "", refused);
  field.oninput = () => { shown = show(dialog, field.value, refused); };
  field.onkeydown = async (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(dialog, event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      await shown; // who types fast means the words in the field, not those that were answered last
      dialog.querySelector('[aria-selected="true"]')?.click();
    }
  };
}

async function show(dialog, words, refused) {
  const mine = ++asked;
  const answer = await ask(`/palette.json?q=${encodeURIComponent(words)}`);
  if (answer.status === 401 || answer.status === 403) refused();
  if (!answer.ok || mine !== asked) return;
  const { places } = await answer.json();
  dialog.querySelector("ul").replaceChildren(...places.map(option));
  select(dialog, 0);
}

// The link itself is the option: what is inside an option cannot be reached by a screen reader.
function option(place, number) {
  const item = document.createElement("li"), link = document.createElement("a");
  const title = document.createElement("span"), note = document.createElement("span");
  item.setAttribute("role", "none");
  title.textContent = place.title;
  note.textContent = place.note;
  note.className = "faint";
  link.href = place.href;
  link.id = `place-${number}`;
  link.tabIndex = -1;
  link.title = `${place.title} ${place.note}`;
  link.setAttribute("role", "option");
  link.append(title, note);
  item.append(link);
  return item;
}

function choose(dialog, step) {
  const options = [...dialog.querySelectorAll('[role="option"]')];
  const at = options.findIndex((one) => one.ariaSelected === "true");
  select(dialog, Math.max(0, Math.min(options.length - 1, at + step)));
}

function select(dialog, number) {
  const options = [...dialog.querySelectorAll('[role="option"]')];
  options.forEach((one, at) => one.setAttribute("aria-selected", String(at === number)));
  dialog.querySelector("input").setAttribute("aria-activedescendant", options[number]?.id ?? "");
  options[number]?.scrollIntoView({ block: "nearest" });
}
