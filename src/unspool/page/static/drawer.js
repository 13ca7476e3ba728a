// The drawer: everything about one step. It stays open while one goes from step to step; Back, Esc and its button close it.

import { rewriteAddress } from "./address.js";
import { bringIntoSight, firstSeen, keepStill, toUpperThird } from "./sight.js";

export function drawerOf(root, source, pages) {
  const drawer = root.querySelector(".drawer");
  const content = drawer.querySelector(".opened");
  let wanted = 0;
  let current = null; // the key of the step
  let tab = "rendered";
  let returning = false; // whether the drawer was closed by going back in the history

  function mark(row) {
    for (const one of root.querySelectorAll(".row.current")) one.classList.remove("current");
    if (row) row.classList.add("current");
  }

  function show(row) {
    if (!drawer.hidden) {
      if (row) bringIntoSight(row);
      return;
    }
    keepStill(row || firstSeen(root), () => {
      drawer.hidden = false;
      root.classList.add("drawn");
    });
  }

  async function open(key, { face = tab, whole = false, jump = false, remembered = false } = {}) {
    const mine = ++wanted;
    const wasOpen = !drawer.hidden;
    current = key;
    tab = face;
    const row = await pages.find(key);
    if (mine !== wanted) return;
    mark(row);
    let html;
    try {
      html = await source.detail(key.replace(/-(fold|inside)$/, ""), face, whole);
    } catch (error) {
      html = null;
      content.textContent = `cannot load: ${error.message}`;
    }
    if (mine !== wanted) return;
    if (html !== null) content.innerHTML = html;
    show(row);
    if (row && jump) toUpperThird(row);
    if (!remembered) remember({ push: !wasOpen });
    const told = content.querySelector(".detail")?.dataset.key;
    if (!row && told && told !== key) await follow(told);
    drawer.scrollTop = 0;
    source.ready(content);
    root.dispatchEvent(new CustomEvent("opened", { detail: { key: current } }));
  }

  // A link may name a line of the file; the step in which it is told is known once its detail is there.
  async function follow(key) {
    current = key;
    const row = await pages.find(key);
    mark(row);
    if (row) toUpperThird(row);
    remember();
  }

  function hide() {
    if (drawer.hidden) return;
    wanted += 1;
    keepStill(root.querySelector(".row.current") || firstSeen(root), () => {
      drawer.hidden = true;
      root.classList.remove("drawn");
    });
  }

  function close() {
    if (drawer.hidden) return;
    hide();
    if (history.state?.drawer) {
      returning = true;
      history.back();
    } else {
      forget();
    }
  }

  function forget() {
    rewriteAddress((asked) => ["step", "tab", "turn"].forEach((name) => asked.delete(name)));
  }

  function remember({ push = false } = {}) {
    if (push) history.scrollRestoration = "manual"; // Back closes the drawer where the reader is
    rewriteAddress(
      (asked) => {
        asked.set("step", current);
        if (tab === "rendered") asked.delete("tab");
        else asked.set("tab", tab);
        asked.delete("turn");
      },
      push ? { push, state: { drawer: true } } : {},
    );
  }

  addEventListener("popstate", () => {
    const asked = new URL(location.href).searchParams;
    const isOpen = !drawer.hidden;
    history.scrollRestoration = "auto";
    if (returning) {
      returning = false;
      if (isOpen) remember({ push: true }); // it was opened again before the browser had gone back
      else forget();
    } else if (asked.get("step")) {
      open(asked.get("step"), { face: asked.get("tab") || "rendered", remembered: true });
    } else {
      hide();
      forget();
    }
  });

  drawer.addEventListener("click", (event) => {
    const link = event.target.closest("a, button");
    if (!link || event.ctrlKey || event.metaKey) return;
    if ("close" in link.dataset) close();
    else if (link.dataset.tab) open(current, { face: link.dataset.tab });
    else if (link.dataset.step) open(link.dataset.step, { face: "rendered", jump: true });
    else if ("whole" in link.dataset) open(current, { whole: true });
    else if (link.dataset.agent) nested(link.dataset.agent, current, link.href);
    else return;
    event.preventDefault();
  });

  // On a phone the drawer is a sheet: pulling its upper edge down closes it.
  const edge = drawer.querySelector(".drawer-top");
  let from = null;
  edge.addEventListener("pointerdown", (event) => {
    if (event.target.closest("a, button") || getComputedStyle(drawer).position !== "fixed") return;
    from = event.clientY;
    edge.setPointerCapture(event.pointerId);
  });
  edge.addEventListener("pointermove", (event) => {
    if (from !== null) drawer.style.transform = `translateY(${Math.max(0, event.clientY - from)}px)`;
  });
  const letGo = (event) => {
    if (from === null) return;
    const pulled = event.clientY - from;
    from = null;
    drawer.style.transform = "";
    if (event.type === "pointerup" && pulled > 60) close();
  };
  edge.addEventListener("pointerup", letGo);
  edge.addEventListener("pointercancel", letGo);

  // An agent's steps stand under the call that started it. Where that is not in the page, the agent has a page of its own.
  async function nested(agent, key, href) {
    const find = () => root.querySelector(`.nested[data-agent="${CSS.escape(agent)}"]`);
    if (!find() && key) await pages.find(key);
    const place = find();
    if (!place) {
      if (href) location.assign(href);
      return;
    }
    for (let above = place; above; above = above.parentElement) if (above.tagName === "DETAILS") above.open = true;
    const row = place.closest(".row");
    mark(row);
    toUpperThird(row || place);
  }

  root.addEventListener(
    "toggle",
    (event) => {
      const place = event.target;
      if (!place.matches || !place.matches(".nested[data-agent]") || !place.open || place.dataset.loaded) return;
      place.dataset.loaded = "1";
      const body = place.querySelector(":scope > a, :scope > .inner");
      source.rows(place, root.dataset.depth).then(
        (html) => {
          const inner = document.createElement("div");
          inner.className = "inner";
          inner.innerHTML = html;
          if (body) body.replaceWith(inner);
          else place.append(inner);
          source.ready(inner);
        },
        () => {
          delete place.dataset.loaded;
          // Claude Code removes old files of agents: then the call is all there is.
          const words = document.createElement("p");
          words.className = "none inner";
          words.textContent = "the steps of this agent cannot be loaded";
          if (body) body.replaceWith(words);
          else place.append(words);
        },
      );
    },
    true,
  );

  return {
    open,
    close,
    nested,
    get key() {
      return current;
    },
    set key(key) {
      current = key;
    },
    get isOpen() {
      return !drawer.hidden;
    },
    mark,
  };
}
