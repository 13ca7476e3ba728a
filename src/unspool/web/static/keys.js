// Keys: each page adds its own to one table, which `?` lists. A later entry takes the place of an earlier one.
const known = new Map();
let before = "", when = 0;

export function keys(entries) {
  for (const entry of entries) known.set(entry.key, entry);
}

// Keys that somebody else listens to: they are only listed.
const others = [];

export function note(entries) {
  others.push(...entries);
}

export function table() {
  const taken = new Set(others.map((entry) => entry.key));
  return [...others, ...[...known.values()].filter((entry) => !taken.has(entry.key))];
}

export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented) return;
    const name = event.key.length === 1 && (event.ctrlKey || event.metaKey) ? `Ctrl-${event.key.toUpperCase()}` : event.key;
    if (event.altKey || (name.startsWith("Ctrl-") ? !known.has(name) : event.ctrlKey || event.metaKey)) return;
    const field = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (field && !name.startsWith("Ctrl-")) {
      if (name === "Escape") field.blur();
      return;
    }
    if (document.querySelector("dialog[open]") && name !== "Ctrl-K") return;
    const pair = `${before} ${name}`;
    const entry = (event.timeStamp - when < 900 && known.get(pair)) || known.get(name);
    [before, when] = [name, event.timeStamp];
    if (!entry) return;
    event.preventDefault();
    entry.run(event);
  });
}
