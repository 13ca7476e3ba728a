// A session's page: rows in a window, a drawer, keys, follow mode. Works on the server's page and in a file alone.

import { sourceFor } from "./source.js";
import { windowOf } from "./window.js";
import { drawerOf } from "./drawer.js";
import { stepsOf } from "./steps.js";
import { followerOf } from "./follow.js";

const DEPTHS = ["prompts", "answers", "steps", "all"];

export const keys = [];

export function begin(root) {
  const source = sourceFor(root);
  const pages = windowOf(root, source);
  const drawer = drawerOf(root, source, pages);
  const steps = stepsOf(root, pages, drawer);
  const follower = root.hasAttribute("data-alone") ? null : followerOf(root, source, pages); // a file does not go on
  const found = root.querySelector(".found");
  const find = root.querySelector(".find input");

  function setDepth(word) {
    if (!DEPTHS.includes(word)) return;
    const before = root.dataset.depth;
    if (root.hasAttribute("data-alone") && word === "all" && root.dataset.most !== "all") return;
    root.dataset.depth = word;
    for (const link of root.querySelectorAll(".depths a")) {
      link.toggleAttribute("aria-current", link.dataset.depth === word);
    }
    const url = new URL(location.href);
    url.searchParams.set("depth", word);
    try {
      history.replaceState(null, "", url);
    } catch {
      // a file may have no history of its own
    }
    if (!root.hasAttribute("data-alone") && (word === "all") !== (before === "all")) pages.reload();
  }

  async function toTurn(number) {
    const section = await pages.turn(number);
    if (!section) return;
    section.scrollIntoView({ block: "start" });
    await steps.go(section.querySelector(".row"));
  }

  async function toStep(key, options) {
    const row = await pages.find(key);
    if (row) row.scrollIntoView({ block: "center" });
    await drawer.open(key, { face: "rendered", scroll: false, ...options });
  }

  const crew = root.querySelector(".crew-place");

  async function loadCrew() {
    if (!crew.dataset.loaded) {
      crew.dataset.loaded = "1";
      crew.innerHTML = await source.agents(crew);
    }
  }

  async function agents() {
    await loadCrew();
    crew.scrollIntoView({ block: "start" });
  }

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
    if (here && here.dataset.key) url.searchParams.set("step", cleanKey(here.dataset.key));
    if (navigator.clipboard) navigator.clipboard.writeText(url.href);
  }

  async function branches() {
    await steps.seek("details.branch", 1);
    const here = root.querySelector("details.branch.current");
    if (here) here.open = true;
  }

  // What can be done with a key; the frame's help lists it.
  keys.push(
    { key: "j", words: "next step", run: () => steps.move(1) },
    { key: "k", words: "step before", run: () => steps.move(-1) },
    { key: "J", words: "next prompt", run: () => steps.seek(".row.prompt", 1) },
    { key: "K", words: "prompt before", run: () => steps.seek(".row.prompt", -1) },
    { key: "l", words: "open the row, then the details", run: () => fold(true) },
    { key: "h", words: "close the details, then the row", run: () => fold(false) },
    { key: "Enter", words: "open the step", run: () => fold(true) },
    { key: "Escape", words: "close the drawer", run: () => (found.hidden ? drawer.close() : (found.hidden = true)) },
    { key: "e", words: "next error", run: () => steps.seek(".row.failed, .row.rejected, .row.interrupted", 1) },
    { key: "E", words: "error before", run: () => steps.seek(".row.failed, .row.rejected, .row.interrupted", -1) },
    { key: "c", words: "next compaction", run: () => steps.seek(".row.compaction", 1) },
    { key: "b", words: "next abandoned branch", run: branches },
    { key: "a", words: "agents", run: agents },
    { key: "g g", words: "to the beginning", run: () => steps.end(false) },
    { key: "G", words: "to the end", run: () => steps.end(true) },
    ...(follower ? [{ key: "f", words: "follow the session, or stop", run: () => follower.toggle() }] : []),
    { key: "/", words: "find in this session", run: () => find.focus() },
    { key: ".", words: "the raw record", run: () => drawer.key && drawer.open(cleanKey(drawer.key), { face: "raw" }) },
    { key: "y", words: "copy a link to this step", run: copyLink },
    ...DEPTHS.map((word, place) => ({ key: String(place + 1), words: `depth: ${word}`, run: () => setDepth(word) })),
  );

  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.matches("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
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
    const link = event.target.closest("a, div.line");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || link.closest(".drawer")) return;
    const row = link.closest(".row");
    if (link.matches(".depths a")) setDepth(link.dataset.depth);
    else if (link.matches(".line, a.more") && row) drawer.open(row.dataset.key, { whole: link.matches(".more"), scroll: false });
    else if (link.closest(".outline [data-turn]")) toTurn(Number(link.closest("[data-turn]").dataset.turn));
    else if (link.closest(".outline .compaction")) toStep(link.closest("[data-key]").dataset.key);
    else if (link.dataset.show === "agents") agents();
    else if (link.dataset.agent) drawer.nested(link.dataset.agent);
    else if (link.dataset.key) toStep(link.dataset.key);
    else if (link.matches(".load")) pages.load(link.closest(".block"));
    else return;
    event.preventDefault();
  });

  root.addEventListener("click", (event) => {
    const code = event.target.closest(".copy");
    if (code && navigator.clipboard) navigator.clipboard.writeText(code.textContent);
  });

  let wait = 0;
  find.form.addEventListener("submit", (event) => event.preventDefault());
  find.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(async () => {
      const words = find.value;
      found.hidden = !words.trim();
      if (!found.hidden) found.innerHTML = await source.find(words);
    }, 150);
  });

  const tip = root.querySelector(".context .tip");
  const chart = root.querySelector("svg.chart");
  if (chart && tip) {
    chart.addEventListener("pointermove", (event) => {
      const column = event.target.closest("a");
      const title = column && column.querySelector("title");
      tip.textContent = title ? title.textContent.replaceAll("\n", " · ") : "";
      for (const one of root.querySelectorAll(".hovered")) one.classList.remove("hovered");
      const row = column && document.getElementById(`s-${column.dataset.key}`);
      if (row) row.classList.add("hovered");
    });
    chart.addEventListener("pointerleave", () => (tip.textContent = ""));
  }

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
  const asked = new URL(location.href).searchParams;
  if (asked.get("step")) toStep(asked.get("step"), { face: asked.get("tab") || "rendered" });
  else if (asked.get("turn")) toTurn(Number(asked.get("turn")));
  if (follower && asked.get("follow")) follower.start();
  root.dataset.ready = "";
  return { keys, drawer, steps, pages, follower, setDepth };
}

const root = document.querySelector(".session");
if (root) window.unspoolSession = begin(root);
