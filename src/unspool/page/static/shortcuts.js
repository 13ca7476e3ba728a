// Keys of a session's page that copy what is asked for most, and lead to what explains the session.

import { copyText, say } from "./copy.js";

export function shortcutsOf(root, source, steps) {
  const follow = (selector, words) => {
    const link = root.querySelector(selector);
    if (link) link.click();
    else say(words);
  };

  // The whole text of a row, also where the page shows only its beginning.
  async function copyRow() {
    const row = steps.place();
    const key = row?.dataset.key?.replace(/-(fold|inside)$/, "");
    if (!key) return;
    const text = (await source.part(key, "rendered", { dataset: { part: "0" } }).catch(() => null)) ?? row.querySelector(".said, .prose, .line")?.innerText;
    if (text) copyText(text, row.matches(".prompt") ? "the prompt" : "the text of this step");
  }

  function showFilling() {
    const fold = root.querySelector(".filling");
    if (!fold) {
      say("no request of this session tells its context");
      return;
    }
    fold.open = true;
    fold.querySelector("summary").focus();
    fold.scrollIntoView({ block: "nearest" });
  }

  const own = [
    { key: "p", words: "copy the prompt, or the text of the step", run: copyRow },
    { key: "r", words: "copy the command that resumes the session", run: () => follow("[data-copy='the resume command']", "this session cannot be resumed here") },
    { key: "w", words: "what fills the context", run: showFilling },
  ];
  if (root.hasAttribute("data-alone")) return own;
  return [
    ...own,
    { key: "$", words: "why it cost that", run: () => follow(".strip a[href*='/cost']", "nothing was billed") },
    { key: "R", words: "review of the changes", run: () => follow(".strip a[href*='/review']", "no file was changed") },
    { key: "T", words: "time of the session", run: () => follow(".strip a[href*='/time']", "no line has a time") },
    { key: "S", words: "share the session", run: () => follow(".strip a.share", "this session cannot be shared") },
  ];
}

// In the table of agents, keys go from row to row; Enter opens what has the focus.
export function moveInAgents(crew, by) {
  const links = [...crew.querySelectorAll("tr td.who > a")];
  const at = links.indexOf(document.activeElement?.closest("tr")?.querySelector("td.who > a"));
  links[at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}
