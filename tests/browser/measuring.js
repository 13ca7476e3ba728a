// What a page must hold to be used by everybody. Each rule returns one line for each thing that breaks it.
// The rules, with the numbers of the Web Content Accessibility Guidelines 2.2, are listed in measuring.py.
(() => {
  const TARGET = 24, LEAST_TEXT = 40;
  const CONTROLS = 'a[href], button, input:not([type="hidden"]), select, textarea, summary, [role="button"], [role="link"], [role="option"], [role="tab"], [role="checkbox"], [role="switch"], [role="menuitem"], [tabindex]:not([tabindex="-1"])';

  const name = (one) => {
    const classes = typeof one.className === "string" && one.className.trim() ? `.${one.className.trim().split(/\s+/).join(".")}` : "";
    const words = (one.getAttribute?.("aria-label") || one.textContent || one.value || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return `${one.tagName.toLowerCase()}${one.id ? `#${one.id}` : ""}${classes}${words ? ` "${words}"` : ""}`;
  };
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const isShown = (one) => one.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  // Words for screen readers alone are moved away, or clipped to a point.
  const isAway = (one) => {
    const box = one.getBoundingClientRect();
    if (box.width <= 1 || box.height <= 1 || box.right + scrollX <= 0 || box.bottom + scrollY <= 0) return true;
    for (let at = one; at && at !== document.body; at = at.parentElement)
      if (getComputedStyle(at).clipPath.startsWith("inset(50%")) return true;
    return false;
  };
  // Nothing behind a modal dialog can be reached.
  const isBehind = (one) => { const modal = document.querySelector("dialog:modal"); return modal !== null && !modal.contains(one); };
  const isSeen = (one) => isShown(one) && !isAway(one) && !isBehind(one);

  function scroll() {
    const root = document.documentElement;
    if (root.scrollWidth <= root.clientWidth) return [];
    const wide = all("body *").filter((one) => one.getBoundingClientRect().right > root.clientWidth + 1);
    const inner = wide.filter((one) => ![...one.children].some((child) => wide.includes(child)));
    return (inner.length ? inner : [root]).slice(0, 5).map((one) => `${name(one)} ends at ${Math.round(one.getBoundingClientRect().right)} of ${root.clientWidth}`);
  }

  // An inline link among words is as high as the line; what is part of a drawing is as large as what it draws.
  function isInline(one) {
    if (one.closest("svg")) return true;
    if (!getComputedStyle(one).display.startsWith("inline") || one.matches("button, input, select, textarea")) return false;
    const block = one.parentElement.closest("p, li, dd, dt, td, th, h1, h2, h3, h4, h5, h6, div, span, figcaption, summary, label") ?? one.parentElement;
    const words = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    while (words.nextNode())
      if (/\p{L}/u.test(words.currentNode.data) && !words.currentNode.parentElement.closest(CONTROLS) && isSeen(words.currentNode.parentElement)) return true;
    return false;
  }

  function targets() {
    const found = all(CONTROLS).filter((one) => isSeen(one) && !one.disabled && !(one.matches("input[type=checkbox], input[type=radio]") && one.closest("label")))
      .map((one) => ({ one, box: one.getBoundingClientRect() }));
    const rows = new Map();
    for (const target of found) {
      const { box } = target;
      target.isSmall = box.width < TARGET - 0.5 || box.height < TARGET - 0.5;
      target.x = (box.left + box.right) / 2;
      target.y = (box.top + box.bottom) / 2;
      for (let row = Math.floor(box.top / 64) - 1; row <= Math.floor(box.bottom / 64) + 1 && row < 20000; row += 1)
        if (rows.has(row)) rows.get(row).push(target); else rows.set(row, [target]);
    }
    const apart = (x, y, box) => Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
    const isCrowded = (target) => rows.get(Math.floor(target.y / 64))?.some((other) =>
      other !== target && !other.one.contains(target.one) && !target.one.contains(other.one) && (
        apart(target.x, target.y, other.box) < TARGET / 2 - 0.5 ||
        (other.isSmall && !isInline(other.one) && Math.hypot(target.x - other.x, target.y - other.y) < TARGET - 0.5)));
    return found.filter((target) => target.isSmall && !isInline(target.one) && isCrowded(target))
      .map(({ one, box }) => `${name(one)} is ${Math.round(box.width)}×${Math.round(box.height)} and beside another`);
  }

  const hasOwnWords = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) ;
  const flat = (words) => words.replace(/\s+/g, " ").trim();

  function hasWayToRead(one, words) {
    if (one.closest("a[href], button, summary, [role='button'], [role='option']") || one.querySelector("a[href], button, summary")) return true;
    for (let at = one; at && at !== document.body; at = at.parentElement)
      if (at.title && flat(at.title).includes(words.slice(0, 24))) return true;
    return all("[title]", one).some((inner) => flat(inner.title).includes(flat(inner.textContent).slice(0, 24)));
  }

  const cuts = (one) => {
    const style = getComputedStyle(one);
    const isCut = (direction) => ["hidden", "clip"].includes(direction);
    if (isCut(style.overflowX) && one.scrollWidth > one.clientWidth + 1) return true;
    return isCut(style.overflowY) && one.scrollHeight > one.clientHeight + 3 && one.clientHeight > 0;
  };

  function cut() {
    return all("body *").filter((one) => !one.closest("svg, [aria-hidden='true']") && isSeen(one) && flat(one.textContent).length > 3 && cuts(one))
      .filter((one) => hasOwnWords(one) || one.firstElementChild)
      .filter((one) => !hasWayToRead(one, flat(one.textContent)))
      .map((one) => `${name(one)} shows ${one.clientWidth}×${one.clientHeight} of ${one.scrollWidth}×${one.scrollHeight}`)
      .concat(cutPlaceholders());
  }

  // Words in an empty field cannot be scrolled to.
  function cutPlaceholders() {
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    return all("input[placeholder]").filter((one) => isSeen(one) && !one.value).flatMap((one) => {
      const style = getComputedStyle(one), room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      const needed = pen.measureText(one.placeholder).width;
      return needed > room + 1 && flat(one.title) !== flat(one.placeholder) ? [`${name(one)} shows ${Math.round(room)} of ${Math.round(needed)} of "${one.placeholder}"`] : [];
    });
  }

  // A title that is three points wide can be read nowhere; words of one letter a line neither.
  function squeezed() {
    const found = [];
    for (const one of all("body *")) {
      if (one.closest("svg, [aria-hidden='true']") || !hasOwnWords(one)) continue;
      const words = flat([...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join(""));
      if (words.length < 8 || !isShown(one)) continue;
      const box = one.getBoundingClientRect(), size = parseFloat(getComputedStyle(one).fontSize);
      if (box.right + scrollX <= 0 || getComputedStyle(one).position === "absolute" && box.width <= 1 || one.closest(".away")) continue;
      const isThin = box.width < LEAST_TEXT && (box.height > 4 * size || (cuts(one) || cuts(one.parentElement)) && one.scrollWidth > box.width + 1);
      if (isThin && box.height > 0) found.push(`${name(one)} has ${Math.round(box.width)} of width`);
    }
    return found;
  }

  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  function rgba(colour) {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, alpha / 255]);
    }
    return known.get(colour);
  }
  const over = ([red, green, blue, alpha], [r, g, b]) => [red * alpha + r * (1 - alpha), green * alpha + g * (1 - alpha), blue * alpha + b * (1 - alpha), 1];
  function ground(one) {
    const layers = [];
    for (let at = one; at; at = at.parentElement) {
      const layer = rgba(getComputedStyle(at).backgroundColor);
      layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), rgba("white"));
  }
  const light = ([red, green, blue]) => {
    const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  };
  const ratio = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  function contrast() {
    const found = new Map();
    const judge = (one, colour, style) => {
      const size = parseFloat(style.fontSize);
      const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
      const below = ground(one);
      let [red, green, blue, alpha] = rgba(colour);
      for (let at = one; at; at = at.parentElement) alpha *= Number(getComputedStyle(at).opacity);
      const has = ratio(over([red, green, blue, alpha], below), below);
      if (has < least - 0.005) found.set(`${one.tagName}.${one.getAttribute("class")}`, `${name(one)} has ${has.toFixed(2)} of ${least}`);
    };
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const seen = new Set();
    while (words.nextNode()) {
      const one = words.currentNode.parentElement;
      if (!words.currentNode.data.trim() || seen.has(one)) continue;
      seen.add(one);
      if (one.closest(":disabled, [aria-disabled='true'], script, style, option, title, desc") || !isSeen(one)) continue;
      const style = getComputedStyle(one);
      judge(one, one.closest("svg") ? style.fill : style.color, style);
    }
    for (const field of all("input[placeholder], textarea[placeholder]"))
      if (isSeen(field) && !field.value) judge(field, getComputedStyle(field, "::placeholder").color, getComputedStyle(field));
    for (const field of all('input:not([type="checkbox"]):not([type="radio"]):not([type="hidden"]), select, textarea')) {
      if (!isSeen(field) || field.closest("dialog .top")) continue;
      const edge = getComputedStyle(field), outside = ground(field.parentElement);
      const has = Math.max(ratio(over(rgba(edge.borderBottomColor), outside), outside), ratio(ground(field), outside));
      if (parseFloat(edge.borderBottomWidth) === 0 || has < 2.995) found.set(field, `the edge of ${name(field)} has ${has.toFixed(2)} of 3`);
    }
    return [...found.values()];
  }

  function headings() {
    const shown = all("h1, h2, h3, h4, h5, h6, [role=heading]").filter((one) => isShown(one) && !one.closest("dialog:not([open])"));
    const levels = shown.map((one) => Number(one.getAttribute("aria-level") ?? one.tagName[1]));
    const found = [];
    if (levels.filter((level) => level === 1).length !== 1) found.push(`${levels.filter((level) => level === 1).length} headings of the first level`);
    levels.forEach((level, at) => {
      if (level > (levels[at - 1] ?? 0) + 1) found.push(`${name(shown[at])} of level ${level} after level ${levels[at - 1] ?? 0}`);
    });
    return found;
  }

  const isStop = (one) => one.tabIndex >= 0 && !one.disabled;

  function charts() {
    return all("svg").filter((one) => isShown(one) && all("a[href], [tabindex]", one).filter(isStop).length > 1)
      .map((one) => `${name(one)} has ${all("a[href], [tabindex]", one).filter(isStop).length} tab stops`);
  }

  function order() {
    const found = all("[tabindex]").filter((one) => one.tabIndex > 0).map((one) => `${name(one)} has tabindex ${one.tabIndex}`);
    for (const one of all(CONTROLS)) {
      if (!isSeen(one)) continue;
      for (let at = one; at && at !== document.body; at = at.parentElement) {
        const style = getComputedStyle(at);
        if (style.order !== "0") found.push(`${name(at)} stands elsewhere than in the text: order ${style.order}`);
        if (style.display.endsWith("flex") && style.flexDirection.endsWith("reverse") && all(CONTROLS, at).length > 1) found.push(`${name(at)} is reversed`);
      }
    }
    return [...new Set(found)];
  }

  function motion() {
    const found = document.getAnimations().filter((one) => one.playState === "running" && Number(one.effect.getComputedTiming().duration) > 1)
      .map((one) => `${name(one.effect.target)} moves`);
    if (getComputedStyle(document.documentElement).scrollBehavior === "smooth") found.push("the page scrolls smoothly");
    return found;
  }

  // Filled while Tab is pressed: where the focus went, whether it could be seen, and whether it went on in the text.
  const walk = { stops: [], problems: [] };
  function watchFocus() {
    walk.stops = [];
    walk.problems = [];
    document.addEventListener("focusin", ({ target }) => {
      const last = walk.stops.at(-1);
      if (walk.stops.includes(target)) return;
      walk.stops.push(target);
      if (last?.isConnected && !(last.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING)) walk.problems.push(`focus: ${name(target)} comes after ${name(last)}`);
      const style = getComputedStyle(target), outside = ground(target.parentElement ?? target);
      const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 && ratio(over(rgba(style.outlineColor), outside), outside) >= 2.995;
      if (!hasOutline) walk.problems.push(`focus: ${name(target)} does not show that it has the focus`);
      const boxes = [...target.getClientRects()].filter((box) => box.width > 0);
      const isOnTop = ({ left, right, top, bottom }) => {
        const hit = document.elementFromPoint(Math.min(Math.max((left + right) / 2, 1), innerWidth - 1), Math.min(Math.max((top + bottom) / 2, 1), innerHeight - 1));
        return hit && (target.contains(hit) || hit.contains(target) || hit.closest("label")?.control === target);
      };
      if (!boxes.some((box) => isOnTop(box) || isOnTop({ ...box.toJSON(), bottom: box.top + 4 }) || isOnTop({ ...box.toJSON(), top: box.bottom - 4 }))) walk.problems.push(`focus: ${name(target)} is behind something`);
    });
  }

  window.measuring = {
    layout: () => Object.entries({ scroll, targets, cut, squeezed }).flatMap(([rule, find]) => find().map((words) => `${rule}: ${words}`)),
    colours: () => contrast().map((words) => `contrast: ${words}`),
    structure: () => Object.entries({ headings, charts, order, motion }).flatMap(([rule, find]) => find().map((words) => `${rule}: ${words}`)),
    watchFocus,
    walked: () => ({ stops: walk.stops.length, problems: walk.problems }),
  };
})();
