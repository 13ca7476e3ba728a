// The review in a file that stands alone: one diff per file, with the prompts behind each hunk, made from the file's own data.
// The rows can be put side by side and wrapped, and together they are a patch.

import { askedInAddress, keepInAddress } from "./address.js";
import { copyText, say } from "./copy.js";
import { numbered, plain } from "./source.js";

export function reviewOf(root, source) {
  const place = document.createElement("section");
  place.className = "review";
  place.id = "review";
  place.tabIndex = -1;
  place.hidden = true;
  place.setAttribute("aria-labelledby", "review-title");
  root.querySelector(".rows").before(place);
  let files = [];

  const show = (on) => {
    place.hidden = !on;
    root.toggleAttribute("data-reviewed", on);
    keepInAddress("review", on ? "1" : null);
  };

  async function fill() {
    const review = await source.review();
    files = review.files ?? [];
    for (const file of files) await readRows(file, source);
    place.innerHTML = pageOf(review);
    draw();
  }

  // The rows of every hunk, in the form that was chosen.
  function draw() {
    const isSplit = place.hasAttribute("data-split");
    const hunks = files.flatMap((file) => file.hunks);
    place.querySelectorAll(".patch").forEach((lines, at) => lines.replaceChildren(...(isSplit ? sideBySide(hunks[at].lines) : hunks[at].lines)));
  }

  async function open(moves = true) {
    if (!place.firstChild) await fill();
    show(true);
    if (!moves) return;
    place.scrollIntoView();
    place.focus({ preventScroll: true });
  }

  place.addEventListener("click", (event) => {
    if (event.target.closest("a")) show(false); // to a step or a turn, which the page opens
    const { form, patch } = event.target.closest("button")?.dataset ?? {};
    if (form) {
      event.target.setAttribute("aria-pressed", place.toggleAttribute(`data-${form}`));
      if (form === "split") draw();
    } else if (patch) {
      copyPatch(patch === "all" ? files : [files[patch]]);
    }
  });
  if (askedInAddress("review")) open(false);
  return { open, close: () => show(false), isOpen: () => !place.hidden };
}

function pageOf(review) {
  const files = (review.files ?? []).map((file, number) => fileOf(file, number, review.prompts));
  const left = review.left ? `<p>${review.left} more files are too long for this file: use the review of \`unspool serve\`.</p>` : "";
  const agents = review.agents ? `<p>The changes of ${review.agents} agents are not here: their files are too large or cannot be read.</p>` : "";
  const buttons = [
    '<a href="#rows" role="button" data-back>back to the session</a>',
    '<button type="button" data-form="split" aria-pressed="false">side by side</button>',
    '<button type="button" data-form="wrap" aria-pressed="false">wrap</button>',
    '<button type="button" data-patch="all">copy as patch</button>',
  ];
  return `<h2 id="review-title">Review</h2><p class="forms">${buttons.join(" ")}</p>${agents}${files.join("")}${left}`;
}

function fileOf(file, number, prompts) {
  const notes = (file.notes ?? []).map((note) => `<p>${plain(note)}</p>`).join("");
  const hunks = file.hunks.map((hunk) => {
    const name = `Lines of ${plain(file.name)}`;
    return `${reasons(hunk, prompts)}<p class="facts">${plain(hunk.at)}</p><div class="patch" tabindex="0" role="group" aria-label="${name}"></div>`;
  });
  const copies = hunks.length ? ` <button type="button" data-patch="${number}" aria-label="copy ${plain(file.name)} as patch">copy as patch</button>` : "";
  return (
    `<section class="file"><h3>${plain(file.name)} <span class="plus">+${file.plus}</span> <span class="minus">−${file.minus}</span>` +
    `${file.new ? ' <span class="mark">new file</span>' : ""} <small>${file.changes} ${file.changes === 1 ? "change" : "changes"}</small>${copies}</h3>${notes}${hunks.join("")}</section>`
  );
}

// Gives each hunk its lines. Where one step shows the whole diff of a file, they are taken from there.
async function readRows(file, source) {
  const content = document.createElement("template");
  let all = null;
  for (const hunk of file.hunks) {
    if (hunk.step && !all) {
      content.innerHTML = await source.diff(hunk.step);
      all = [...content.content.querySelectorAll(".patch > div:not(.gap)")];
    } else if (!hunk.step) {
      content.innerHTML = numbered(hunk.html);
    }
    hunk.lines = hunk.step ? all.splice(0, hunk.rows) : [...content.content.children];
    hunk.texts = hunk.lines.map((line) => line.textContent.slice(line.querySelector("b").textContent.length + numbersOf(line)).replace(/\n$/, ""));
    for (const [at, ...places] of hunk.marks ?? []) markWords(hunk.lines[at], hunk.texts[at], places);
    for (const at of hunk.unended ?? []) hunk.lines[at].insertAdjacentHTML("beforeend", '<small title="no newline at end of file">⏎̸</small>');
  }
}

const numbersOf = (line) => [...line.querySelectorAll("i")].reduce((sum, number) => sum + number.textContent.length, 0);

function markWords(line, text, places) {
  let html = "";
  let from = 0;
  for (let at = 0; at < places.length; at += 2) {
    html += `${plain(text.slice(from, places[at]))}<mark>${plain(text.slice(places[at], places[at + 1]))}</mark>`;
    from = places[at + 1];
  }
  const sign = line.querySelector("b");
  while (sign.nextSibling) sign.nextSibling.remove();
  sign.insertAdjacentHTML("afterend", `${html}${plain(text.slice(from))}\n`);
}

// Removed lines on the left, the added ones that follow them on the right.
function sideBySide(lines) {
  const cells = [];
  let pair = [[], []];
  const flush = () => {
    for (let at = 0; at < Math.max(pair[0].length, pair[1].length); at += 1) cells.push(half(pair[0][at], 0), half(pair[1][at], 1));
    pair = [[], []];
  };
  for (const line of lines) {
    const side = line.matches(".minus") ? 0 : line.matches(".plus") ? 1 : null;
    if (side === null || (side === 0 && pair[1].length)) flush();
    if (side === null) cells.push(half(line, 0), half(line, 1));
    else pair[side].push(line);
  }
  flush();
  return cells;
}

function half(line, side) {
  const cell = line ? line.cloneNode(true) : document.createElement("div");
  if (line) cell.querySelectorAll("i")[1 - side].remove();
  else cell.className = "gap";
  return cell;
}

function copyPatch(files) {
  const exact = files.filter((file) => !file.inexact);
  if (!exact.length) return say("the characters of these lines cannot all be shown here: use the review of `unspool serve`");
  const text = exact.map((file) => file.hunks.map(patchOf).join("") + (file.end ?? "")).join("");
  const left = files.length - exact.length;
  copyText(text, left ? `the patch without ${left} ${left === 1 ? "file" : "files"}, whose characters cannot all be shown here` : "the patch");
}

function patchOf(hunk) {
  if (hunk.head === "-") return "";
  const lines = hunk.lines.map((line, at) => `${line.querySelector("b").textContent}${hunk.texts[at]}\n${hunk.unended?.includes(at) ? "\\ No newline at end of file\n" : ""}`);
  return `${hunk.head ?? ""}${hunk.at}\n${lines.join("")}`;
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
