// Going from row to row: what is on screen, what comes next, what went wrong.

import { say } from "./copy.js";
import { bringIntoSight, toUpperThird } from "./sight.js";

const PATIENCE = 500; // milliseconds of a search after which it says that it goes on

export function stepsOf(root, pages, drawer) {
  let searches = 0;

  const shown = () =>
    [...root.querySelectorAll(".rows .row, .rows details.branch")].filter((row) => row.offsetParent !== null);

  const place = () => {
    const here = root.querySelector(".row.current, details.branch.current");
    if (here && here.offsetParent !== null) return here;
    return shown().find((row) => row.getBoundingClientRect().bottom > 80) || null;
  };

  async function go(row, { jump = false } = {}) {
    if (!row) return;
    for (const one of root.querySelectorAll(".current")) one.classList.remove("current");
    row.classList.add("current");
    if (jump) toUpperThird(row);
    else bringIntoSight(row);
    const next = row.closest(".block");
    if (next && next.nextElementSibling) pages.load(next.nextElementSibling);
    if (row.dataset.key) {
      drawer.key = row.dataset.key;
      if (drawer.isOpen) await drawer.open(row.dataset.key, { jump });
    }
  }

  function move(by) {
    const rows = shown();
    const here = rows.indexOf(place());
    const current = rows[here];
    const isMarked = current && current.classList.contains("current");
    return go(rows[Math.min(Math.max(here + (isMarked ? by : 0), 0), rows.length - 1)]);
  }

  // Goes to the next row of a kind, through blocks that are not loaded yet. A later search ends it. `name` is what the
  // rows are called if there are no more.
  async function seek(selector, by, name) {
    const mine = ++searches;
    const timer = setTimeout(() => mine === searches && say(`looking for ${name}`), PATIENCE);
    const row = await search(selector, by, () => mine === searches);
    clearTimeout(timer);
    if (mine !== searches) return;
    if (row) await go(row, { jump: true });
    else say(by > 0 ? `no more ${name}` : `no ${name} before`);
  }

  async function search(selector, by, isWanted) {
    const all = pages.blocks();
    const here = place();
    const start = here ? all.indexOf(here.closest(".block")) : 0;
    const isMarked = here && here.classList.contains("current");
    const after = (row) =>
      !here || (row === here && !isMarked) || (by > 0 ? here.compareDocumentPosition(row) & 4 : here.compareDocumentPosition(row) & 2);
    for (let at = Math.max(start, 0); isWanted() && at >= 0 && at < all.length; at += by) {
      if (!(await pages.has(all[at], selector))) continue;
      const rows = [...all[at].querySelectorAll(selector)].filter((row) => (row !== here || !isMarked) && after(row));
      const row = by > 0 ? rows[0] : rows[rows.length - 1];
      if (row) {
        for (let above = row.parentElement; above; above = above.parentElement) {
          if (above.tagName === "DETAILS") above.open = true;
        }
        return row;
      }
    }
    return null;
  }

  async function end(last) {
    const all = pages.blocks();
    const block = last ? all[all.length - 1] : all[0];
    if (!block) return;
    await pages.load(block);
    const rows = shown();
    await go(last ? rows[rows.length - 1] : rows[0]);
    if (last) block.scrollIntoView({ block: "end" });
    else scrollTo(0, 0);
  }

  return { go, move, seek, end, place };
}
