// Where a row stands in the window, and how to scroll so that a reader can follow.

const edges = () => {
  const tools = document.querySelector(".session .tools");
  const drawer = document.querySelector(".session .drawer:not([hidden])");
  // On a narrow window the drawer covers the lower part of the rows.
  const covers = drawer && getComputedStyle(drawer).position === "fixed";
  return {
    top: (tools ? tools.getBoundingClientRect().height : 0) + 8,
    bottom: covers ? drawer.getBoundingClientRect().top : innerHeight,
  };
};

const scrollRows = (by) => scrollBy({ top: by, behavior: "instant" });

// A jump ends in the upper third: what follows the row can be read too.
export function toUpperThird(row) {
  const { top, bottom } = edges();
  const at = row.getBoundingClientRect().top;
  const third = top + (bottom - top) / 3;
  if (at < top || at > third) scrollRows(at - (top + (bottom - top) / 6));
}

// Going on by one row moves nothing while the row can be seen.
export function bringIntoSight(row) {
  const { top, bottom } = edges();
  const box = row.getBoundingClientRect();
  const end = Math.min(box.bottom, box.top + 120);
  if (box.top < top) scrollRows(box.top - top);
  else if (end > bottom) scrollRows(Math.min(end - bottom + 24, box.top - top));
}

// Changes the layout, and scrolls so that a row stays where it is.
export function keepStill(row, change) {
  if (!row || row.offsetParent === null) {
    change();
    return;
  }
  const before = row.getBoundingClientRect().top;
  change();
  scrollRows(row.getBoundingClientRect().top - before);
  bringIntoSight(row);
}

export const firstSeen = (root) => {
  const { top } = edges();
  return [...root.querySelectorAll(".rows .row")].find((row) => row.offsetParent && row.getBoundingClientRect().top >= top);
};
