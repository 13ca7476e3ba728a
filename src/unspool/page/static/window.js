// What of a long session is in the page: blocks near the eye have their rows, far ones only their height.

const NEAR = 1500; // pixels
const FAR = 3000;
const MOST = 6000; // elements in all blocks together

export function windowOf(root, source) {
  const rows = root.querySelector(".rows");
  const loading = new Map();
  let kept = false; // nothing gives way while all is printed

  const blocks = () => [...rows.querySelectorAll(":scope > .block")];
  const depth = () => root.dataset.depth;

  function reserve(block) {
    if (block.hasAttribute("data-empty")) block.style.height = `${block.dataset.height}px`;
  }

  function load(block) {
    if (!block.hasAttribute("data-empty")) return Promise.resolve();
    if (!loading.has(block)) {
      const work = source
        .rows(block, depth() === "all" ? "all" : "steps")
        .then((html) => fill(block, html))
        .catch((error) => {
          block.title = `cannot load: ${error.message}`;
        })
        .finally(() => loading.delete(block));
      loading.set(block, work);
    }
    return loading.get(block);
  }

  // Whether a block has a row of a kind; then it is loaded. Any other stays out of the page: all blocks of a session of
  // 200 MB have 255,000 elements.
  async function has(block, selector) {
    if (!block.hasAttribute("data-empty") || loading.has(block)) {
      await load(block);
      return block.querySelector(selector) !== null;
    }
    const parsed = document.createElement("template");
    try {
      parsed.innerHTML = await source.rows(block, depth() === "all" ? "all" : "steps");
    } catch (error) {
      block.title = `cannot load: ${error.message}`;
    }
    if (!parsed.content.querySelector(selector)) return false;
    await load(block);
    return true;
  }

  function fill(block, html) {
    const open = [...block.querySelectorAll("details[open][data-key]")].map((one) => one.dataset.key);
    block.innerHTML = html;
    for (const key of open) {
      const again = document.getElementById(`s-${key}`);
      if (again) again.open = true;
    }
    block.removeAttribute("data-empty");
    block.style.height = "";
    source.ready(block);
    root.dispatchEvent(new CustomEvent("rows"));
  }

  // The farthest blocks give way when there are too many nodes; not one in which something is open.
  function release() {
    if (kept) return;
    const full = blocks().filter((block) => !block.hasAttribute("data-empty"));
    let nodes = full.reduce((sum, block) => sum + block.getElementsByTagName("*").length, 0);
    if (nodes <= MOST) return;
    const away = (block) => {
      const box = block.getBoundingClientRect();
      return Math.max(box.top - innerHeight, -box.bottom);
    };
    const byDistance = full.map((block) => [away(block), block]).sort((one, other) => other[0] - one[0]);
    for (const [distance, block] of byDistance) {
      if (nodes <= MOST || distance < FAR) break;
      if (block.querySelector(".row.current, .nested[open], .block")) continue;
      nodes -= block.getElementsByTagName("*").length;
      block.dataset.height = Math.round(block.getBoundingClientRect().height);
      block.setAttribute("data-empty", "");
      block.textContent = "";
      reserve(block);
      watcher.unobserve(block); // to be told again when it comes near
      watcher.observe(block);
    }
  }

  const watcher = new IntersectionObserver(
    (seen) => {
      const near = seen.filter((one) => one.isIntersecting && one.target.hasAttribute("data-empty"));
      Promise.all(near.map((one) => load(one.target))).then(release);
    },
    { rootMargin: `${NEAR}px 0px` },
  );

  let rest = 0;
  addEventListener(
    "scroll",
    () => {
      clearTimeout(rest);
      rest = setTimeout(release, 200);
    },
    { passive: true },
  );

  function watch() {
    for (const block of blocks()) {
      reserve(block);
      watcher.observe(block);
    }
  }

  // The outline of a long session is loaded in stretches, the same way.
  const outlineWatcher = new IntersectionObserver(
    (seen) => {
      for (const { target, isIntersecting } of seen) {
        const isEmpty = target.hasAttribute("data-empty");
        if (isIntersecting && isEmpty) {
          target.removeAttribute("data-empty");
          source.rows(target, "steps").then((html) => {
            target.innerHTML = html;
            target.style.height = "";
          });
        } else if (!isIntersecting && !isEmpty && target.firstElementChild) {
          target.style.height = `${target.getBoundingClientRect().height}px`;
          target.setAttribute("data-empty", "");
          target.textContent = "";
        }
      }
    },
    { root: root.querySelector(".left"), rootMargin: "900px 0px" },
  );
  for (const stretch of root.querySelectorAll(".outline ol[data-src]")) {
    if (stretch.hasAttribute("data-empty")) stretch.style.height = `${stretch.dataset.count * 42}px`;
    outlineWatcher.observe(stretch);
  }

  function blockOf(key) {
    const offset = Number(key.slice(key.lastIndexOf("/") + 1).split(".")[0]);
    return blocks().filter((block) => Number(block.dataset.start) <= offset).pop();
  }

  async function find(key) {
    let row = document.getElementById(`s-${key}`);
    if (!row && !key.includes("/")) {
      const block = blockOf(key);
      if (block) await load(block);
      row = document.getElementById(`s-${key}`);
    }
    for (let above = row && row.parentElement; above; above = above.parentElement) {
      if (above.tagName === "DETAILS") above.open = true;
    }
    return row;
  }

  async function turn(number) {
    const block = blocks().filter((one) => Number(one.dataset.first) <= number).pop();
    if (block) await load(block);
    const section = document.getElementById(`t-${number}`);
    const branch = section && section.closest("details.branch");
    if (branch) branch.open = true;
    return section;
  }

  async function loadAll() {
    kept = true;
    // A few at a time: a long session has hundreds of blocks.
    const waiting = blocks();
    const take = async () => {
      for (let block = waiting.shift(); block; block = waiting.shift()) await load(block);
    };
    await Promise.all([take(), take(), take()]);
  }

  const keep = (all) => {
    kept = all;
  };

  async function reload() {
    for (const block of blocks()) {
      if (!block.hasAttribute("data-empty")) block.dataset.height = Math.round(block.getBoundingClientRect().height);
      block.setAttribute("data-empty", "");
    }
    const near = blocks().filter((block) => {
      const box = block.getBoundingClientRect();
      return box.bottom > -NEAR && box.top < innerHeight + NEAR;
    });
    await Promise.all(near.map(load));
    watch();
  }

  watch();
  return { load, has, loadAll, keep, fill, find, turn, reload, watch, blocks };
}
