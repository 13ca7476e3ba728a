// The chart of context and cost: it tells what is pointed at, is one stop for Tab, and adds up what is brushed over.

import { askedInAddress, keepInAddress } from "./address.js";

export function chartOf(root) {
  const top = root.querySelector(".top");
  if (!top) return;
  let start = null; // the column where a brush began
  let brushed = false;

  const columns = () => [...top.querySelectorAll("svg.chart a.column")];
  const tell = (words) => {
    const tip = top.querySelector(".tip");
    if (tip) tip.textContent = words;
  };
  const titleOf = (link) => link?.querySelector("title")?.textContent.replaceAll("\n", " · ") ?? "";

  function choose(link) {
    for (const one of top.querySelectorAll("svg.chart a[tabindex='0']")) one.setAttribute("tabindex", "-1");
    link.setAttribute("tabindex", "0");
    link.focus();
  }

  top.addEventListener("keydown", (event) => {
    const all = columns();
    const at = all.indexOf(event.target.closest("a.column"));
    if (at < 0) return;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    choose(all[Math.min(Math.max(to, 0), all.length - 1)]);
  });
  top.addEventListener("focusin", (event) => tell(titleOf(event.target.closest("svg.chart a"))));

  // The sums of some columns: what they cost, how many requests they are, and the turns they belong to.
  function sum(one, other) {
    const all = columns();
    const [from, to] = [all.indexOf(one), all.indexOf(other)].sort((a, b) => a - b);
    if (from < 0 || from === to) return;
    for (const [at, column] of all.entries()) column.classList.toggle("brushed", at >= from && at <= to);
    const value = (at, name) => (at < 0 ? 0 : Number(all[at].dataset[name]));
    const output = all.slice(from, to + 1).reduce((total, column) => total + Number(column.dataset.output), 0);
    const first = value(from, "turn");
    const last = value(to, "turn");
    const words = [
      `requests ${(value(from - 1, "request") + 1).toLocaleString("en")} to ${value(to, "request").toLocaleString("en")}`,
      `${output.toLocaleString("en")} output tokens`,
      `$${((value(to, "spent") - value(from - 1, "spent")) / 1e6).toFixed(2)}`,
    ];
    tell(`${words.join(" · ")} · `);
    const link = document.createElement("a");
    link.href = root.dataset.base ? `${root.dataset.base}?turns=${first}..${last}` : `#t-${first}`;
    link.textContent = first === last ? `turn ${first}` : `only turns ${first} to ${last}`;
    top.querySelector(".tip").append(link);
  }

  top.addEventListener("pointerdown", (event) => {
    start = event.button === 0 ? event.target.closest("a.column") : null;
    brushed = false;
  });
  top.addEventListener("pointermove", (event) => {
    const link = event.target.closest("svg.chart a");
    if (start && link && event.buttons === 1 && link !== start) {
      brushed = true;
      sum(start, link.matches(".column") ? link : start);
      return;
    }
    if (!link || top.querySelector(".brushed")) return;
    tell(titleOf(link));
    for (const one of root.querySelectorAll(".hovered")) one.classList.remove("hovered");
    document.getElementById(`s-${link.dataset.key}`)?.classList.add("hovered");
  });
  top.addEventListener("dragstart", (event) => event.target.closest("svg.chart") && event.preventDefault());
  top.addEventListener(
    "click",
    (event) => {
      if (!event.target.closest("svg.chart")) return;
      if (brushed) {
        event.preventDefault(); // the end of a brush opens no step
        event.stopPropagation();
      } else {
        for (const one of top.querySelectorAll(".brushed")) one.classList.remove("brushed");
      }
      start = null;
      brushed = false;
    },
    true,
  );

  top.addEventListener(
    "toggle",
    (event) => {
      if (event.target.matches(".context-fold")) keepInAddress("chart", event.target.open ? null : "0");
    },
    true,
  );
  const fold = top.querySelector(".context-fold");
  if (fold && askedInAddress("chart") === "0") fold.open = false;
}
