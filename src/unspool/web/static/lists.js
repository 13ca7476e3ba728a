// Lists: menus that take effect at once, and rows that come when they are scrolled to. Without this, a button and a link do it.
for (const form of document.querySelectorAll("form[data-submits]")) {
  form.querySelector("button:not([name])")?.classList.add("away");
  form.addEventListener("change", (event) => { if (event.target.matches("select")) form.requestSubmit(); });
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
  });
  addEventListener("pageshow", () => { for (const field of form.elements) field.disabled = false; });
}

const rows = document.getElementById("rows");
let busy = false;

async function more(link) {
  if (busy) return;
  busy = true;
  try {
    const answer = await fetch(link.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const known = new Set([...rows.children].map((row) => row.dataset.session));
    const fresh = [...(page.getElementById("rows")?.children ?? [])].filter((row) => !known.has(row.dataset.session));
    rows.append(...fresh);
    const next = page.getElementById("next");
    if (next) link.href = next.getAttribute("href"); else link.closest("p").remove();
  } finally {
    busy = false;
  }
  if (link.isConnected) { watcher.unobserve(link); watcher.observe(link); }
}

const watcher = new IntersectionObserver((seen) => {
  for (const one of seen) if (one.isIntersecting) more(one.target);
}, { rootMargin: "1200px" });
const link = document.getElementById("next");
if (rows && link) watcher.observe(link);
