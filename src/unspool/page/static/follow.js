// A session that goes on: new rows as they are written. Who is at its end stays there; else nothing moves. Nothing that is
// open closes.

import { keepInAddress } from "./address.js";
import { openStream } from "./requests.js";

const REFRESH = 2000; // milliseconds between two looks at the facts and the chart

export function followerOf(root, source, pages) {
  const pill = root.querySelector(".pill");
  const button = root.querySelector("[data-follow]");
  let events = null;
  let fresh = 0;

  function element(html) {
    const place = document.createElement("template");
    place.innerHTML = html.trim();
    return place.content.firstElementChild;
  }

  function blockFor({ block, src, first, start }) {
    const known = document.getElementById(`b-${block}`);
    if (known) return known;
    const made = document.createElement("div");
    made.className = "block";
    made.id = `b-${block}`;
    Object.assign(made.dataset, { block, src, first, start, height: 0 });
    root.querySelector(".rows").append(made);
    pages.watch();
    return made;
  }

  function sectionFor(block, { turn, chunk, section }) {
    const wanted = `section.turn[data-turn="${turn}"][data-chunk="${chunk}"]`;
    const known = block.querySelector(wanted);
    if (known) return known;
    block.append(element(section));
    return block.querySelector(wanted);
  }

  function put(change) {
    const block = blockFor(change);
    if (block.hasAttribute("data-empty")) {
      block.dataset.height = Number(block.dataset.height) + 28;
      return;
    }
    const row = element(change.html);
    const known = document.getElementById(row.id);
    // What is folded now stood by itself before.
    const folded = [...row.querySelectorAll(".row")].map((one) => document.getElementById(one.id)).filter(Boolean);
    if (known) {
      keep(known, row);
      known.replaceWith(row);
    } else {
      if (folded.length) folded[0].before(row);
      else sectionFor(block, change).append(row);
      fresh += 1;
    }
    for (const one of folded) if (!row.contains(one)) one.remove();
    source.ready(row);
  }

  // What was open or chosen in the old row is so in the new one.
  function keep(old, row) {
    if (old.open) row.open = true;
    if (old.classList.contains("current")) row.classList.add("current");
    const nested = old.querySelector(":scope > .nested[open]");
    const place = row.querySelector(":scope > .nested");
    if (nested && place) place.replaceWith(nested);
    for (const one of old.querySelectorAll("details[open][id]")) {
      const again = row.querySelector(`#${CSS.escape(one.id)}`);
      if (again) again.open = true;
    }
  }

  function take(message) {
    const growth = JSON.parse(message.data);
    root.dataset.position = message.lastEventId || growth.position;
    if (growth.restarted) {
      anew();
      return;
    }
    const wasAtEnd = isAtEnd();
    for (const change of growth.rows) put(change);
    if (growth.outline) outline(growth);
    if (wasAtEnd) toEnd();
    show();
    refresh();
    root.dispatchEvent(new CustomEvent("rows"));
  }

  // Turns were numbered anew, or the file is another: the page is asked for again and put in place of the old one. What
  // was open stays open, and blocks that are not loaded keep the height they had.
  async function anew() {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".session");
    const open = [...root.querySelectorAll(".rows details[open][id]")].map((one) => one.id);
    const heights = new Map(pages.blocks().map((block) => [block.id, Math.round(block.getBoundingClientRect().height)]));
    const top = scrollY;
    for (const part of [".rows", ".outline"]) {
      root.querySelector(part).replaceChildren(...page.querySelector(part).childNodes);
    }
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    for (const block of root.querySelectorAll(".block[data-empty]")) {
      if (heights.has(block.id)) block.dataset.height = heights.get(block.id);
    }
    root.dataset.position = page.dataset.position;
    source.ready(root);
    pages.watch();
    scrollTo({ top, behavior: "instant" });
    root.dispatchEvent(new CustomEvent("rows"));
  }

  function outline({ outline: html, first }) {
    const known = root.querySelector(`.outline ol[data-first="${first}"]`);
    if (known && !known.hasAttribute("data-empty")) {
      known.innerHTML = html;
    } else if (!known) {
      const made = document.createElement("ol");
      made.dataset.first = first;
      made.innerHTML = html;
      root.querySelector(".outline").append(made);
    }
  }

  const bottom = () => root.querySelector(".rows").getBoundingClientRect().bottom;
  const isAtEnd = () => bottom() <= innerHeight + 40;
  const toEnd = () => {
    if (bottom() > innerHeight) scrollBy({ top: bottom() - innerHeight + 24, behavior: "instant" });
  };

  // The facts at the top and the chart are asked for again, at most every two seconds.
  let timer = 0;
  let looked = 0;
  function refresh() {
    if (timer) return;
    timer = setTimeout(async () => {
      timer = 0;
      looked = Date.now();
      try {
        const [head, chart] = await Promise.all([source.fresh("head", root.dataset.agent), source.fresh("chart", root.dataset.agent)]);
        update(".strip", head);
        update(".top", chart);
      } catch {
        // the next rows try again
      }
    }, Math.max(0, looked + REFRESH - Date.now()));
  }

  // Puts fresh HTML in the place of old; what is unfolded stays so, and nothing is replaced while it has the focus.
  function update(selector, html) {
    const place = root.querySelector(selector);
    if (!place || place.contains(document.activeElement)) return;
    const open = [...place.querySelectorAll("details")].map((one) => one.open);
    const height = place.getBoundingClientRect().height;
    if (selector === ".strip") place.replaceChildren(...element(html).childNodes);
    else place.innerHTML = html;
    [...place.querySelectorAll("details")].forEach((one, at) => (one.open = open[at] ?? one.open));
    const grown = place.getBoundingClientRect().height - height;
    if (grown && place.getBoundingClientRect().bottom < 0) scrollBy({ top: grown, behavior: "instant" });
  }

  function show() {
    const below = root.querySelector(".rows").getBoundingClientRect().bottom > innerHeight;
    if (!below) fresh = 0;
    pill.hidden = !fresh;
    pill.textContent = `${fresh} new ↓`;
  }

  function start() {
    if (events) return;
    events = openStream(`${root.dataset.base}/events?from=${root.dataset.position}`, { growth: take }, stop);
    mark(true);
    keepInAddress("follow", "1");
    refresh();
  }

  function stop() {
    if (events) events.close();
    events = null;
    mark(false);
    keepInAddress("follow", null);
  }

  function mark(on) {
    if (button) button.toggleAttribute("aria-current", on);
    root.classList.toggle("following-along", on);
  }

  pill.addEventListener("click", () => {
    fresh = 0;
    pill.hidden = true;
    root.querySelector(".rows").scrollIntoView({ block: "end" });
  });
  addEventListener("scroll", () => !pill.hidden && show(), { passive: true });
  if (button) {
    button.addEventListener("click", (event) => {
      event.preventDefault();
      toggle();
    });
  }

  // Who begins to follow wants to see what comes.
  const toggle = () => {
    if (events) {
      stop();
      return;
    }
    start();
    const last = pages.blocks().at(-1);
    (last ? pages.load(last) : Promise.resolve()).then(toEnd);
  };
  return { start, stop, toggle, take };
}
