// Filters the index of exported sessions while somebody types. All words must be in a row or in the prompts of its session.
const field = document.getElementById("filter");
const count = document.getElementById("count");
const none = document.getElementById("none");
const rows = [...document.querySelectorAll("tbody tr")].map((row) => ({
  row,
  text: `${row.textContent} ${row.dataset.text}`.toLocaleLowerCase(),
}));

function filter() {
  const words = field.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { row, text } of rows) {
    row.hidden = !words.every((word) => text.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  count.textContent = shown === rows.length ? `${rows.length} sessions` : `${shown} of ${rows.length} sessions`;
  none.hidden = shown > 0 || rows.length === 0;
  history.replaceState(null, "", field.value ? `#${encodeURIComponent(field.value)}` : location.pathname);
}

try {
  field.value = decodeURIComponent(location.hash.slice(1));
} catch {
  field.value = ""; // the address was not written by this page
}
field.addEventListener("input", filter);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape" && document.activeElement === field) {
    field.value = "";
    filter();
  }
});
filter();
