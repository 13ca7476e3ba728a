// What the frame does on the server's page, for a file that stands alone: the list of keys, and the theme.

const THEMES = ["", "dark", "light"];

export function aloneKeys(all, tell) {
  return [
    { key: "?", words: "these keys", run: () => listKeys(all) },
    {
      key: "t",
      words: "theme",
      run: () => {
        const page = document.documentElement;
        const theme = THEMES[(THEMES.indexOf(page.dataset.theme ?? "") + 1) % THEMES.length];
        if (theme) page.dataset.theme = theme;
        else delete page.dataset.theme;
        tell(theme ? `${theme} colours` : "colours of the system");
      },
    },
  ];
}

function listKeys(all) {
  const dialog = document.createElement("dialog");
  dialog.id = "keys";
  dialog.setAttribute("aria-label", "Keys");
  const title = document.createElement("h2");
  title.textContent = "Keys";
  const close = document.createElement("button");
  close.type = "button";
  close.className = "close";
  close.setAttribute("aria-label", "Close");
  close.textContent = "×";
  close.addEventListener("click", () => dialog.close());
  const list = document.createElement("dl");
  for (const { key, words } of all) {
    const term = document.createElement("dt");
    const cap = document.createElement("kbd");
    const meaning = document.createElement("dd");
    cap.textContent = key;
    meaning.textContent = words;
    term.append(cap);
    list.append(term, meaning);
  }
  dialog.append(title, close, list);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}
