// The review of a session: copies its patch, and shows more lines of a file in its place.
import { ask } from "./requests.js";
import { toast } from "./frame.js";

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      const answer = await ask(button.dataset.copy);
      if (!answer.ok) throw new Error(String(answer.status));
      await navigator.clipboard.writeText(await answer.text());
      toast("patch copied");
    } catch {
      toast("the patch could not be copied: download it instead");
    }
  });
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("a[data-expand]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const file = link.closest(".file");
  const answer = await ask(link.href).catch(() => null);
  const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  const more = page?.querySelector(".file");
  if (!more) return location.assign(link.href);
  more.id = file.id;
  file.replaceWith(document.adoptNode(more));
  more.querySelector("a[data-expand]")?.focus();
});
