// The review in a file that stands alone: one diff per file, with the prompts behind each hunk, made from the file's own data.

import { askedInAddress, keepInAddress } from "./address.js";
import { numbered, plain } from "./source.js";

export function reviewOf(root, source) {
  const place = document.createElement("section");
  place.className = "review";
  place.id = "review";
  place.tabIndex = -1;
  place.hidden = true;
  place.setAttribute("aria-labelledby", "review-title");
  root.querySelector(".rows").before(place);

  const show = (on) => {
    place.hidden = !on;
    root.toggleAttribute("data-reviewed", on);
    keepInAddress("review", on ? "1" : null);
  };

  async function open(moves = true) {
    if (!place.firstChild) place.innerHTML = await pageOf(await source.review(), source);
    show(true);
    if (!moves) return;
    place.scrollIntoView();
    place.focus({ preventScroll: true });
  }

  place.addEventListener("click", (event) => {
    if (event.target.closest("a")) show(false); // to a step or a turn, which the page opens
  });
  if (askedInAddress("review")) open(false);
  return { open, close: () => show(false), isOpen: () => !place.hidden };
}

async function pageOf(review, source) {
  const files = [];
  for (const file of review.files ?? []) files.push(await fileOf(file, review.prompts, source));
  const left = review.left ? `<p>${review.left} more files are too long for this file: use the review of \`unspool serve\`.</p>` : "";
  const agents = review.agents ? `<p>The changes of ${review.agents} agents are not here: their files are too large or cannot be read.</p>` : "";
  const close = '<a href="#rows" role="button" data-back>back to the session</a>';
  return `<h2 id="review-title">Review</h2><p>${close}</p>${agents}${files.join("")}${left}`;
}

async function fileOf(file, prompts, source) {
  const notes = (file.notes ?? []).map((note) => `<p>${plain(note)}</p>`).join("");
  const hunks = [];
  for (const hunk of file.hunks) hunks.push(reasons(hunk, prompts) + (await linesOf(hunk, file.name, source)));
  return (
    `<section class="file"><h3>${plain(file.name)} <span class="plus">+${file.plus}</span> <span class="minus">−${file.minus}</span>` +
    `${file.new ? ' <span class="mark">new file</span>' : ""} <small>${file.changes} ${file.changes === 1 ? "change" : "changes"}</small></h3>${notes}${hunks.join("")}</section>`
  );
}

function reasons(hunk, prompts) {
  const items = hunk.by.map(([turn, agent, abandoned, keys]) => {
    const steps = keys.map((key, at) => `<a href="#s-${plain(key)}" data-key="${plain(key)}">step${keys.length > 1 ? ` ${at + 1}` : ""}</a>`);
    const link = turn ? `<a href="#t-${turn}" data-to="${turn}">turn ${turn}</a> ` : "";
    const words = `${agent ? `agent ${plain(agent)} ` : ""}${abandoned ? "abandoned branch " : ""}`;
    return `<li>${link}${words}<q>${plain(prompts[turn] ?? "no prompt")}</q> ${steps.join(" ")}</li>`;
  });
  if (hunk.outside) items.push("<li>something else than a tool call of this session changed some of these lines</li>");
  return `<ul>${items.join("")}</ul>`;
}

async function linesOf(hunk, name, source) {
  let rows = numbered(hunk.html ?? "");
  if (hunk.step) {
    const step = document.createElement("template");
    step.innerHTML = await source.diff(hunk.step);
    rows = step.content.querySelector(".patch")?.innerHTML ?? "";
  }
  const at = hunk.at ? `<p class="facts">${plain(hunk.at)}</p>` : "";
  return `${at}<div class="patch" tabindex="0" role="group" aria-label="Lines of ${plain(name)}">${rows}</div>${hunk.unended ? "<p>no newline at the end of the file</p>" : ""}`;
}
