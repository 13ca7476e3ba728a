"""What stands in a page, looked at as the browser understood it: everything that came from a payload must be words.

A payload that waits for a click or a hover does nothing by itself; here its elements and attributes are found.
"""

from __future__ import annotations

from playwright.sync_api import Page

_AUDIT = """
async (origin) => {
  const found = [];
  const say = (one, why) => found.push(`${why}: ${one.outerHTML.slice(0, 120)}`);
  const forbidden = "iframe, frame, frameset, object, embed, applet, base, portal, fencedframe, marquee, video, audio,"
    + " math, template, noscript, xmp, isindex, svg script, svg animate, svg set, svg foreignObject, svg use,"
    + " svg image, svg style, svg feImage";
  for (const one of document.querySelectorAll(forbidden)) say(one, "element");
  const policy = document.querySelector("meta[http-equiv]")?.content ?? "";
  for (const one of document.querySelectorAll("script")) {
    if (one.src || /^application\\//.test(one.type)) continue;
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(one.textContent));
    if (!policy.includes(btoa(String.fromCharCode(...new Uint8Array(digest))))) say(one, "script");
  }
  for (const one of document.querySelectorAll("meta[http-equiv]"))
    if (one.httpEquiv.toLowerCase() !== "content-security-policy") say(one, "meta");
  const leads = ["href", "src", "srcset", "action", "formaction", "poster", "data", "background", "ping", "xlink:href"];
  const here = new URL(origin);
  for (const one of document.querySelectorAll("*")) {
    for (const { name, value } of one.attributes) {
      if (/^on/i.test(name)) say(one, `handler ${name}`);
      if (/^(data-)?hx-|^x-|^v-/i.test(name)) say(one, `behaviour ${name}`);
      if (name === "style" && !/^(height: [\\d.]+px;?)?$/.test(value)) say(one, "style");
      if (/^(srcdoc|manifest|autofocus|popover)$/.test(name)) say(one, name);
      if (!leads.includes(name.toLowerCase()) || (one.tagName === "DATA")) continue;
      let to;
      try { to = new URL(value, document.baseURI); } catch { say(one, `address ${name}`); continue; }
      const inside = to.protocol === "file:" || (to.host === here.host && to.protocol === here.protocol
        && !to.pathname.startsWith("/pwn-"));
      if (inside) continue;
      if (one.tagName === "IMG" && name === "src" && /^data:image\\/(png|jpeg|gif|webp);base64,/.test(value)) continue;
      const leaves = one.tagName === "A" && name === "href" && ["http:", "https:", "mailto:"].includes(to.protocol)
        && one.rel.includes("noopener");
      if (!leaves) say(one, `address ${name}`);
    }
  }
  return found.slice(0, 10);
}
"""


def audit(page: Page, origin: str) -> list[str]:
    """Return what in a page is more than words; `origin` is where the page's own addresses lead."""
    found: list[str] = page.evaluate(_AUDIT, origin)
    return found


def unfold(page: Page) -> None:
    """Open everything that is folded."""
    page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true }")
