// The time of a session: tells what the pointer or the focus is on, in one line that stays in view.
const tip = document.querySelector("p.tip");

function tell(event) {
  const place = event.target.closest?.("[data-tip], svg.strip a");
  const words = place?.dataset.tip ?? place?.getAttribute("aria-label");
  if (!tip || !words) return;
  tip.textContent = words;
  tip.hidden = false;
}

function hush(event) {
  if (tip && !event.relatedTarget?.closest?.("[data-tip], svg.strip a, p.tip")) tip.hidden = true;
}

for (const [kind, run] of [["mouseover", tell], ["focusin", tell], ["mouseout", hush], ["focusout", hush]])
  document.querySelector("main")?.addEventListener(kind, run);
