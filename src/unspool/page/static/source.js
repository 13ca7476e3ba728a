// Where rows, details and pictures come from: the server, or the file itself if it stands alone.

import { ask } from "./requests.js";

export function sourceFor(root) {
  return root.hasAttribute("data-alone") ? alone() : served(root.dataset.base);
}

function served(base) {
  const text = async (url) => {
    const answer = await fetch(url, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    return answer.text();
  };
  return {
    rows: (element, depth) => text(withDepth(element.dataset.src, depth)),
    detail: (key, tab, whole) =>
      text(`${base}/detail?step=${encodeURIComponent(key)}&tab=${tab}${whole ? "&whole=1" : ""}`),
    find: (words) => text(`${base}/find?words=${encodeURIComponent(words)}`),
    agents: (element) => text(element.dataset.src),
    fresh: (part, agent) => {
      const asked = new URLSearchParams(agent ? { agent } : {});
      const list = new URL(location.href).searchParams.get("list");
      if (list) asked.set("list", list);
      return text(`${base}/${part}?${asked}`);
    },
    // The whole text of a part of a step, also where only its beginning is shown.
    part: async (key, tab, element) => {
      const answer = await ask(`${base}/detail.json?step=${encodeURIComponent(key)}&whole=1`);
      if (!answer.ok) return null;
      const part = (await answer.json())[tab === "result" ? "result" : "rendered"]?.[Number(element.dataset.part)];
      return part?.text ?? part?.lines?.map(([sign, , , words]) => (sign === "@" ? "@@" : sign + words)).join("\n") ?? null;
    },
    ready: () => {},
  };
}

function withDepth(url, depth) {
  return url + (url.includes("?") ? "&" : "?") + `depth=${depth}`;
}

// A file that stands alone keeps what is opened in packed blocks, each opened when it is first asked for.
function alone() {
  const opened = new Map();
  const packed = (name) => {
    if (!opened.has(name)) opened.set(name, unpacked(document.getElementById(`pack-${name}`)));
    return opened.get(name);
  };
  const holder = (key) => {
    const agent = key.includes("/") ? key.slice(0, key.lastIndexOf("/")) : "";
    if (agent) return `agent-${agent}`;
    const row = document.getElementById(`s-${key}`);
    return `block-${row ? row.closest(".block").dataset.block : ""}`;
  };
  return {
    rows: async (element) => (await packed(`agent-${element.dataset.agent}`)).rows || "",
    detail: async (key, tab) => {
      const step = ((await packed(holder(key))).steps || {})[key];
      return step ? faces(key, tab, step) : "<p class='none'>end of file</p>";
    },
    find: async (words) => foundHere(words),
    agents: async () => (await packed("agents")).rows || "",
    review: () => packed("review"),
    diff: async (key) => numbered(((await packed(holder(key))).steps || {})[key]?.html ?? ""),
    part: async () => null,
    ready: (root) => {
      for (const row of root.querySelectorAll(".row:not([data-key])")) {
        row.dataset.key = row.id.slice(2);
        // A line that opens its step is a link, which takes the focus; in the file it is not, as that would make the file longer.
        const line = row.querySelector(":scope > div.line");
        if (!line) continue;
        const link = document.createElement("a");
        link.className = "line";
        link.href = `#${row.id}`;
        if (row.matches(".prompt, .answer")) link.setAttribute("aria-label", `Details of this ${row.classList[1]}`);
        link.append(...line.childNodes);
        line.replaceWith(link);
      }
      for (const image of root.querySelectorAll("img[data-blob]:not([src])")) {
        const blob = document.getElementById(`blob-${image.dataset.blob}`);
        if (blob) image.src = `data:${blob.dataset.mime};base64,${blob.textContent.trim()}`;
      }
    },
  };
}

async function unpacked(block) {
  if (!block) return {};
  const stream = new Blob([bytesOf(block.textContent.trim())]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Five letters for four bytes, as Python's base64.b85encode writes them, with a comma for the sign that opens a tag.
const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

function bytesOf(text) {
  const values = new Uint8Array(128);
  for (let place = 0; place < LETTERS.length; place += 1) values[LETTERS.charCodeAt(place)] = place;
  const whole = Math.ceil(text.length / 5);
  const view = new DataView(new ArrayBuffer(whole * 4));
  const padded = text.padEnd(whole * 5, "~");
  for (let group = 0; group < whole; group += 1) {
    let number = 0;
    for (let place = 0; place < 5; place += 1) number = number * 85 + values[padded.charCodeAt(group * 5 + place)];
    view.setUint32(group * 4, number >>> 0);
  }
  return new Uint8Array(view.buffer, 0, whole * 4 - (whole * 5 - text.length));
}

// Writes the line numbers again that follow the one above them in their column.
export function numbered(html) {
  const last = [0, 0];
  const one = (column, text, number) => {
    if (text === undefined) return "";
    if (text === "<u/>") return `<i>${(last[column] += 1)}</i>`;
    if (number) last[column] = Number(number);
    return text;
  };
  return html.replace(/(<i>(\d{0,9})<\/i>|<u\/>)(<i>(\d{0,9})<\/i>|<u\/>)?/g, (_, left, old, right, fresh) => one(0, left, old) + one(1, right, fresh));
}

const RAW = "<p class='none'>this export does not contain the raw record; export with --depth all</p>";

// The faces of a step that the file does not hold as HTML are made from its data.
function faces(key, tab, step) {
  const made = {
    rendered: () => numbered(step.html) || ownWords(key),
    input: () => treeOf(step.input),
    result: () => treeOf(step.result),
    structured: () => treeOf(step.structured),
    raw: () =>
      step.raw
        .map((raw) => `<h4><code>${plain(raw.in || document.querySelector(".session").dataset.path)}:${plain(raw.at)}</code></h4>${raw.record === undefined ? RAW : treeOf(raw.record)}`)
        .join(""),
  };
  const names = Object.keys(made).filter((name) => name === "raw" || name === "rendered" || name in step);
  const face = names.includes(tab) ? tab : "rendered";
  const links = names.map(
    (name) => `<a href="#s-${plain(key)}" data-tab="${name}"${name === face ? ' aria-current="true"' : ""}>${name}</a>`,
  );
  return `<div class="detail" data-key="${plain(key)}" data-tab="${face}">${headOf(key)}<nav class="tabs" aria-label="views">${links.join("")}</nav>${made[face]()}</div>`;
}

// The heading of a step is made of its row.
function headOf(key) {
  const row = document.getElementById(`s-${key}`);
  const line = row && row.querySelector(":scope > .line");
  if (!line) return "";
  const words = (name) => line.querySelector(`:scope > .${name}`)?.textContent.trim() ?? "";
  const turn = row.closest("section.turn")?.dataset.turn;
  const facts = [words("outcome"), words("facts"), turn ? `turn ${turn}` : ""].filter(Boolean).join(" · ");
  const target = words("target") ? ` <span class="target">${plain(words("target"))}</span>` : "";
  const name = words("name") || { prompt: "prompt", answer: "answer", thought: "thinking" }[row.classList[1]] || "";
  return (
    `<h2 class="${row.classList.contains("failed") ? "failed" : "done"}"><b class="sign">${plain(words("sign"))}</b> ` +
    `<span class="name">${plain(name)}</span>${target}</h2><p class="facts">${plain(facts)}</p>` +
    `<p class="actions"><button type="button" data-copy="link">copy link</button></p>`
  );
}

function ownWords(key) {
  const row = document.getElementById(`s-${key}`);
  const words = row && row.querySelector(":scope > .prose, :scope > .said");
  return words ? `<section class="part" data-part="0"><h4><button type="button" data-copy="the text">copy</button></h4>${words.outerHTML}</section>` : "";
}

export function plain(text) {
  const signs = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return String(text).replace(/[&<>"']/g, (letter) => signs[letter]);
}

function treeOf(value, depth = 0) {
  if (value === undefined) return "<p class='none'>none</p>";
  if (value === null || typeof value !== "object") return `<pre class="plain" tabindex="0">${plain(value)}</pre>`;
  const items = Object.entries(value).map(([name, one]) => {
    if (one === null || typeof one !== "object") return `<li><b>${plain(name)}</b> <span class="leaf">${plain(one)}</span></li>`;
    const open = depth < 2 ? " open" : "";
    const words = Array.isArray(one) ? `[${one.length}]` : `{${plain(Object.keys(one).slice(0, 4).join(", "))}}`;
    return `<li><details${open}><summary><b>${plain(name)}</b> <span class="target">${words}</span></summary>${treeOf(one, depth + 1)}</details></li>`;
  });
  return `<ul class="tree">${items.join("")}</ul>`;
}

function foundHere(words) {
  const wanted = words.trim().toLowerCase();
  const found = [];
  for (const row of wanted ? document.querySelectorAll(".rows .row") : []) {
    const text = row.textContent;
    const at = row.matches(".fold, .inside") ? -1 : text.toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    const turn = row.closest("section.turn");
    found.push(
      `<li><a href="#s-${plain(row.dataset.key)}" data-key="${plain(row.dataset.key)}"><b>${turn ? plain(turn.dataset.turn) : ""}</b> ` +
        `<span class="words">${plain(text.slice(Math.max(0, at - 60), at))}<mark>${plain(text.slice(at, at + wanted.length))}</mark>${plain(text.slice(at + wanted.length, at + wanted.length + 60))}</span></a></li>`,
    );
  }
  return `<ol class="matches">${found.slice(0, 500).join("") || `<li class="none">nothing says ${plain(words)}</li>`}</ol>`;
}
