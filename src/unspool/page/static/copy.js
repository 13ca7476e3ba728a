// Copies texts, and says short messages that go away.

let fade = 0;

export function say(words) {
  let box = document.querySelector(".toast");
  if (!box) {
    box = document.createElement("div");
    box.className = "toast";
    box.setAttribute("role", "status");
    document.body.append(box);
  }
  box.textContent = words;
  clearTimeout(fade);
  fade = setTimeout(() => (box.textContent = ""), Math.max(2000, words.length * 60));
}

export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    if (!copySelected(text)) {
      say("this browser does not let the page copy");
      return;
    }
  }
  say(`copied ${what}`);
}

// The older way, for pages that are not served from this machine.
function copySelected(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "away";
  const before = document.activeElement;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  before?.focus?.();
  return done;
}

// What is shown of a part of a step, as text.
export function textOfPart(part) {
  const lines = part.querySelector(".patch, .code");
  if (!lines) return (part.querySelector("pre, .prose, .tree, .question, .checklist") || part).innerText;
  return [...lines.children]
    .map((line) => [...line.childNodes].filter((node) => node.nodeName !== "I").map((node) => node.textContent).join(""))
    .map((line) => line.replace(/\n$/, ""))
    .join("\n");
}
