// A session's page: rows in a window, a drawer, keys, follow mode. Works on the server's page and in a file alone.

import { sourceFor } from "./source.js";
import { askedInAddress, keepInAddress } from "./address.js";
import { windowOf } from "./window.js";
import { drawerOf } from "./drawer.js";
import { stepsOf } from "./steps.js";
import { followerOf } from "./follow.js";
import { chartOf } from "./chart.js";
import { toUpperThird } from "./sight.js";
import { copyText, say, textOfPart } from "./copy.js";
import { aloneKeys } from "./alone.js";
import { reviewOf } from "./review_alone.js";
import { moveInAgents, shortcutsOf } from "./shortcuts.js";

const DEPTHS = ["prompts", "answers", "steps", "all"];
const FAILURES = ".row.failed, .row.rejected, .row.interrupted";

export const keys = [];

export function begin(root) {
  const isAlone = root.hasAttribute("data-alone");
  const source = sourceFor(root);
  const pages = windowOf(root, source);
  const drawer = drawerOf(root, source, pages);
  const steps = stepsOf(root, pages, drawer);
  const follower = isAlone ? null : followerOf(root, source, pages); // a file does not go on
  const review = isAlone ? reviewOf(root, source) : null;
  const found = root.querySelector(".found");
  const find = root.querySelector(".find input");

  function setDepth(word) {
    if (!DEPTHS.includes(word)) return;
    const before = root.dataset.depth;
    if (isAlone && word === "all" && root.dataset.most !== "all") {
      say("this file was exported without these lines; export with --depth all");
      return;
    }
    root.dataset.depth = word;
    for (const link of root.querySelectorAll(".depths a")) {
      link.toggleAttribute("aria-current", link.dataset.depth === word);
    }
    keepInAddress("depth", word);
    if (!isAlone && (word === "all") !== (before === "all")) pages.reload();
  }

  // Kinds of rows that are hidden; the address has them.
  const kinds = [...root.querySelectorAll(".kinds input")];
  const hideKinds = () => {
    const hidden = kinds.filter((box) => !box.checked).map((box) => box.value);
    root.dataset.hide = hidden.join(" ");
    keepInAddress("hide", hidden.length ? hidden.join(",") : null);
  };
  const hiddenFirst = (askedInAddress("hide") || "").split(",").filter(Boolean);
  for (const box of kinds) {
    if (hiddenFirst.includes(box.value)) box.checked = false;
    box.addEventListener("change", hideKinds);
  }
  if (hiddenFirst.length) hideKinds();

  async function toTurn(number) {
    const section = await pages.turn(number);
    if (!section) return;
    toUpperThird(section);
    await steps.go(section.querySelector(".row"));
    toUpperThird(section);
  }

  const toStep = (key, options) => drawer.open(key, { face: "rendered", jump: true, ...options });

  const crew = root.querySelector(".crew-place");

  async function loadCrew() {
    if (!crew.dataset.loaded) {
      crew.dataset.loaded = "1";
      crew.innerHTML = await source.agents(crew);
    }
  }

  async function agents() {
    await loadCrew();
    toUpperThird(crew);
    moveInAgents(crew, 0);
  }

  const move = (by) => (crew.contains(document.activeElement) ? moveInAgents(crew, by) : steps.move(by));

  // The tree of agents stands at the end of a session that has some, loaded when it comes near.
  if (root.querySelector("[data-show=agents]")) {
    const watcher = new IntersectionObserver(
      (seen) => {
        if (!seen.some((one) => one.isIntersecting)) return;
        watcher.disconnect();
        loadCrew();
      },
      { rootMargin: "600px 0px" },
    );
    watcher.observe(crew);
  }

  function fold(open) {
    const here = steps.place();
    if (!here) return;
    if (here.tagName === "DETAILS") here.open = open;
    const nested = here.querySelector(":scope > .nested");
    if (nested && open && drawer.isOpen) nested.open = true;
    else if (nested && !open && nested.open) nested.open = false;
    else if (open && here.dataset.key) drawer.open(cleanKey(here.dataset.key));
    else if (!open) drawer.close();
  }

  const cleanKey = (key) => key.replace(/-(fold|inside)$/, "");

  function copyLink() {
    const url = new URL(location.href);
    const here = steps.place();
    const key = drawer.isOpen ? drawer.key : here?.dataset.key;
    if (key) url.searchParams.set("step", cleanKey(key));
    url.searchParams.delete("follow");
    copyText(url.href, "a link to this step");
  }

  // What the buttons of the head and of an opened step copy.
  async function copyFor(button) {
    const detail = button.closest(".detail");
    const part = button.closest(".part");
    if (button.dataset.text) copyText(button.dataset.text, button.dataset.copy);
    else if (button.dataset.copy === "link") copyLink();
    else if (part && detail) copyText((await source.part(detail.dataset.key, detail.dataset.tab, part)) ?? textOfPart(part), button.dataset.copy);
  }

  function closeFind() {
    clearTimeout(wait);
    found.hidden = true;
    find.value = "";
    find.blur();
  }

  function closeTop() {
    if (!found.hidden) closeFind();
    else if (review?.isOpen() && !drawer.isOpen) review.close();
    else drawer.close();
  }

  // All rows are there when the page is printed, also those of a long session that were not loaded yet.
  async function print() {
    if (pages.blocks().some((block) => block.hasAttribute("data-empty"))) say("loading all turns to print them");
    await pages.loadAll();
    window.print();
    pages.keep(false);
  }

  async function branches() {
    await steps.seek("details.branch", 1, "abandoned branches");
    const here = root.querySelector("details.branch.current");
    if (here) here.open = true;
  }

  // What can be done with a key; the frame's help lists it.
  keys.push(
    { key: "j", words: "next step", run: () => move(1) },
    { key: "k", words: "step before", run: () => move(-1) },
    { key: "J", words: "next prompt", run: () => steps.seek(".row.prompt", 1, "prompts") },
    { key: "K", words: "prompt before", run: () => steps.seek(".row.prompt", -1, "prompts") },
    { key: "l", words: "open the row, then the details", run: () => fold(true) },
    { key: "h", words: "close the details, then the row", run: () => fold(false) },
    { key: "Enter", words: "open the step", run: () => fold(true) },
    { key: "Escape", words: "close what was found, then the step", run: closeTop },
    { key: "e", words: "next error", run: () => steps.seek(FAILURES, 1, "errors") },
    { key: "E", words: "error before", run: () => steps.seek(FAILURES, -1, "errors") },
    { key: "c", words: "next compaction", run: () => steps.seek(".row.compaction", 1, "compactions") },
    { key: "b", words: "next abandoned branch", run: branches },
    { key: "a", words: "agents", run: agents },
    { key: "g g", words: "to the beginning", run: () => steps.end(false) },
    { key: "G", words: "to the end", run: () => steps.end(true) },
    ...(follower ? [{ key: "f", words: "follow the session, or stop", run: () => follower.toggle() }] : []),
    { key: "/", words: "find in this session", run: () => find.focus() },
    { key: ".", words: "the raw record", run: () => drawer.key && drawer.open(cleanKey(drawer.key), { face: "raw" }) },
    { key: "y", words: "copy a link to this step", run: copyLink },
    { key: "P", words: "print all turns", run: print },
    ...(isAlone ? [{ key: "R", words: "review of the changes", run: () => root.querySelector("[data-show=review]")?.click() }] : []),
    ...(isAlone
      ? []
      : [
          { key: "[", words: "previous session", run: () => root.querySelector(".strip a[rel=prev]")?.click() },
          { key: "]", words: "next session", run: () => root.querySelector(".strip a[rel=next]")?.click() },
        ]),
    ...shortcutsOf(root, source, steps),
    ...DEPTHS.map((word, place) => ({ key: String(place + 1), words: `depth: ${word}`, run: () => setDepth(word) })),
    ...(isAlone ? aloneKeys(keys, say) : []),
  );

  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if ((event.ctrlKey || event.metaKey) && event.key === "p") {
      event.preventDefault(); // the browser would print before all turns are loaded
      print();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape" && event.target === find) closeFind();
      else if (event.key === "Escape") event.target.blur();
      else if (event.key === "Enter" && event.target === find) found.querySelector("a")?.click();
      return;
    }
    if (event.key === "Enter" && event.target.matches("a, button, summary")) return;
    const both = `${before} ${event.key}`;
    const chosen = keys.find((one) => one.key === both) || keys.find((one) => one.key === event.key);
    before = chosen ? "" : event.key;
    if (!chosen) return;
    event.preventDefault();
    chosen.run();
  });

  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) {
      copyFor(button);
      return;
    }
    const hit = event.target.closest("[data-find]");
    if (hit && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      find.value = hit.dataset.find;
      find.dispatchEvent(new Event("input"));
      return;
    }
    const link = event.target.closest("a, div.line");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || link.closest(".drawer")) return;
    const row = link.closest(".row");
    if (link.matches(".depths a")) setDepth(link.dataset.depth);
    else if (link.matches(".line, a.more") && row) drawer.open(row.dataset.key, { whole: link.matches(".more") });
    else if (link.closest(".outline [data-turn]")) toTurn(Number(link.closest("[data-turn]").dataset.turn));
    else if (link.closest(".outline .compaction")) toStep(link.closest("[data-key]").dataset.key);
    else if (link.dataset.show === "agents") agents();
    else if (link.dataset.to) toTurn(Number(link.dataset.to));
    else if (link.dataset.show === "review" && review) review.open();
    else if (link.dataset.agent) drawer.nested(link.dataset.agent, link.dataset.call, link.href);
    else if (link.dataset.key) toStep(link.dataset.key);
    else if (link.matches(".load")) pages.load(link.closest(".block"));
    else return;
    event.preventDefault();
  });

  let wait = 0;
  find.form.addEventListener("submit", (event) => event.preventDefault());
  find.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(async () => {
      const words = find.value;
      const html = words.trim() ? await source.find(words) : "";
      if (find.value !== words) return;
      found.innerHTML = html;
      found.hidden = !html;
    }, 150);
  });

  chartOf(root);

  // The outline shows which turn is in view; a stretch of it that is not loaded comes when it is scrolled to.
  const left = root.querySelector(".left");
  const toStretch = (turn) => {
    const all = [...root.querySelectorAll(".outline ol[data-empty]")];
    const stretch = all.find((one) => Number(one.dataset.first) <= turn && turn <= Number(one.dataset.last));
    if (stretch) left.scrollTop += stretch.getBoundingClientRect().top - left.getBoundingClientRect().top;
  };
  const eye = new IntersectionObserver(
    (seen) => {
      for (const { target, isIntersecting } of seen) {
        if (!isIntersecting) continue;
        const item = root.querySelector(`.outline li[data-turn="${target.dataset.turn}"]`);
        if (!item) toStretch(Number(target.dataset.turn));
        if (!item || item.classList.contains("here")) continue;
        for (const one of root.querySelectorAll(".outline .here")) one.classList.remove("here");
        item.classList.add("here");
        const box = item.getBoundingClientRect();
        const frame = left.getBoundingClientRect();
        if (box.top < frame.top || box.bottom > frame.bottom) left.scrollTop += box.top - frame.top - frame.height / 3;
      }
    },
    { rootMargin: "-80px 0px -70% 0px" },
  );
  const look = () => {
    for (const section of root.querySelectorAll("section.turn:not([data-seen])")) {
      section.dataset.seen = "";
      eye.observe(section);
    }
  };
  root.addEventListener("rows", look);
  look();

  root.dataset.most = root.dataset.depth;
  source.ready(root);
  if (askedInAddress("step")) toStep(askedInAddress("step"), { face: askedInAddress("tab") || "rendered" });
  else if (askedInAddress("turn")) toTurn(Number(askedInAddress("turn")));
  if (follower && askedInAddress("follow")) follower.start();
  root.dataset.ready = "";
  return { keys, drawer, steps, pages, follower, setDepth };
}

const root = document.querySelector(".session");
if (root) window.unspoolSession = begin(root);
