// The drawer: everything about one step. It stays open while one goes from step to step.

export function drawerOf(root, source, pages) {
  const drawer = root.querySelector(".drawer");
  let wanted = 0;
  let current = null; // the key of the step
  let tab = "rendered";

  function mark(row) {
    for (const one of root.querySelectorAll(".row.current")) one.classList.remove("current");
    if (row) row.classList.add("current");
  }

  async function open(key, { face = tab, whole = false, scroll = true } = {}) {
    const mine = ++wanted;
    current = key;
    tab = face;
    const row = await pages.find(key);
    if (mine !== wanted) return;
    mark(row);
    if (row && scroll) row.scrollIntoView({ block: "nearest" });
    remember();
    try {
      const html = await source.detail(key.replace(/-(fold|inside)$/, ""), face, whole);
      if (mine !== wanted) return;
      drawer.innerHTML = html;
      const told = drawer.querySelector(".detail")?.dataset.key;
      if (!row && told && told !== key) await follow(told);
    } catch (error) {
      drawer.textContent = `cannot load: ${error.message}`;
    }
    drawer.hidden = false;
    root.classList.add("drawn");
    drawer.scrollTop = 0;
    source.ready(drawer);
  }

  // A link may name a line of the file; the step in which it is told is known once its detail is there.
  async function follow(key) {
    current = key;
    const row = await pages.find(key);
    mark(row);
    if (row) row.scrollIntoView({ block: "center" });
    remember();
  }

  function close() {
    drawer.hidden = true;
    root.classList.remove("drawn");
    remember();
  }

  function remember() {
    const url = new URL(location.href);
    if (current) url.searchParams.set("step", current);
    if (current && tab !== "rendered") url.searchParams.set("tab", tab);
    else url.searchParams.delete("tab");
    url.searchParams.delete("turn");
    try {
      history.replaceState(null, "", url);
    } catch {
      // a file may have no history of its own
    }
  }

  drawer.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey) return;
    if (link.dataset.tab) open(current, { face: link.dataset.tab, scroll: false });
    else if (link.dataset.step) open(link.dataset.step, { face: "rendered" });
    else if ("whole" in link.dataset) open(current, { whole: true, scroll: false });
    else if (link.dataset.agent) nested(link.dataset.agent);
    else return;
    event.preventDefault();
  });

  // An agent's steps stand under the call that started it.
  async function nested(agent) {
    const place = root.querySelector(`.nested[data-agent="${CSS.escape(agent)}"]`);
    if (!place) return;
    for (let above = place; above; above = above.parentElement) if (above.tagName === "DETAILS") above.open = true;
    place.scrollIntoView({ block: "nearest" });
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
        () => delete place.dataset.loaded,
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
    remember,
  };
}
