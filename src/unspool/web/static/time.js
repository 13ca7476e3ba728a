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

// The strip is one tab stop; arrow keys, Home and End move inside.
document.querySelector("svg.strip")?.addEventListener("keydown", (event) => {
  const turns = [...event.currentTarget.querySelectorAll("a.turn")];
  const at = turns.indexOf(document.activeElement);
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: turns.length - 1 }[event.key];
  if (at < 0 || next === undefined || !turns[next]) return;
  event.preventDefault();
  turns[at].setAttribute("tabindex", "-1");
  turns[next].setAttribute("tabindex", "0");
  turns[next].focus();
});
