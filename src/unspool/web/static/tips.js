// Tips of charts: shown on hover, focus and touch. A chart is one tab stop; the arrows move inside it.
const box = document.createElement("div");
box.className = "tip";
box.hidden = true;
box.setAttribute("aria-hidden", "true"); // the same words are the name of what they belong to
document.body.append(box);
let touched = null;

function show(one) {
  box.textContent = one.dataset.tip;
  box.hidden = false;
  const place = one.getBoundingClientRect(), own = box.getBoundingClientRect();
  const left = Math.max(4, Math.min(innerWidth - own.width - 4, place.left + place.width / 2 - own.width / 2));
  const top = place.top - own.height - 6;
  box.style.setProperty("left", `${left}px`);
  box.style.setProperty("top", `${top < 4 ? place.bottom + 6 : top}px`);
}

const tipOf = (event) => event.target.closest?.("[data-tip]");
document.addEventListener("pointerover", (event) => { const one = tipOf(event); if (one) show(one); else box.hidden = true; });
document.addEventListener("focusin", (event) => { const one = tipOf(event); if (one) show(one); else box.hidden = true; });
addEventListener("scroll", () => { box.hidden = true; }, { passive: true, capture: true });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") box.hidden = true; });

// The first touch tells, the second one goes there.
document.addEventListener("click", (event) => {
  const one = tipOf(event);
  const isTouch = event.pointerType === "touch";
  if (one && isTouch && one !== touched && one.matches("svg a")) {
    event.preventDefault();
    show(one);
  }
  touched = one;
});

for (const chart of document.querySelectorAll("svg[data-roving]")) {
  const cells = [...chart.querySelectorAll("[data-x]")];
  const at = new Map(cells.map((cell) => [`${cell.dataset.x} ${cell.dataset.y}`, cell]));
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const cell = event.target.closest("[data-x]");
    if (!cell || !step || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = at.get(`${Number(cell.dataset.x) + step[0]} ${Number(cell.dataset.y) + step[1]}`);
    event.preventDefault();
    if (!next) return;
    cell.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

// What is newest is at the right end.
for (const one of document.querySelectorAll(".scroll.end")) one.scrollLeft = one.scrollWidth;
