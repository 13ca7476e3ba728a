"""Measures whether everybody can use a page: what does not fit, or cannot be pressed, read, seen or reached by keys.

Rules, with the numbers of the Web Content Accessibility Guidelines 2.2
  `scroll` (1.4.10)    the page is never wider than its window, down to 320 px and at 200 % zoom (1.4.4: half the width)
  `targets` (2.5.8)    what can be pressed is 24×24 px, or stands so far from others, or is a link among words
  `cut`                words that do not fit have a title with all of them, or are or hold a link, button or summary;
                       those of an empty field fit, or are its title
  `squeezed`           no words are cut to less than 40 px, none has one letter a line
  `contrast` (1.4.3)   words have 4.5:1, large ones and the edges of fields (1.4.11) 3:1
  `headings` (1.3.1)   one of the first level, and none skips a level
  `order` (2.4.3)      the focus goes as the text does
  `focus` (2.4.7)      what has the focus shows it, and nothing covers it (2.4.11)
  `charts`             a drawing is one tab stop
  `motion` (2.3.3)     nothing moves where a person asked for that
  `axe`                what axe-core finds wrong, of all its rules: names of controls, roles, landmarks, languages
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

WIDTHS = (320, 390, 512, 768, 1024, 1440, 1920)
"""320 is 1280 at 400 %, and 512 is 1024 at 200 %."""
WIDE, NARROW = 1440, 390
HEIGHT = 900
MOST_STOPS = 60
"""Tab stops that are walked on one page: lists repeat themselves."""
SCRIPT = (Path(__file__).parent / "measuring.js").read_text()


def measure(page: Page) -> list[str]:
    """Return what is wrong with a page, at every width and in both themes."""
    page.evaluate(SCRIPT)
    found: list[str] = []
    for width in WIDTHS:
        resize(page, width)
        found += (f"{width} {problem}" for problem in page.evaluate("measuring.layout()"))
    for width in (NARROW, WIDE):
        resize(page, width)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            found += (f"{width} {theme} {problem}" for problem in page.evaluate("measuring.colours()"))
            found += (f"{width} {theme} {problem}" for problem in ask_axe(page, contrast=width == WIDE))
    found += page.evaluate("measuring.structure()")
    return found + walk(page)


def resize(page: Page, width: int) -> None:
    """Give the window a width."""
    page.set_viewport_size({"width": width, "height": HEIGHT})


def ask_axe(page: Page, *, contrast: bool = True) -> Iterator[str]:
    """Yield what axe-core finds."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    # Its own contrast rule takes as long as all others together; it is asked once for each theme.
    options = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": contrast}}}
    for violation in page.evaluate("options => axe.run(options)", options)["violations"]:
        nodes = violation["nodes"]
        yield f"axe: {violation['id']} ({len(nodes)}): {nodes[0]['html'][:160]}"


def walk(page: Page) -> list[str]:
    """Press Tab from the start of the page; return what is wrong with where it goes."""
    page.evaluate("() => { document.activeElement?.blur(); getSelection().removeAllRanges(); scrollTo(0, 0); }")
    page.evaluate("measuring.watchFocus()")
    stops = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
             .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility()).length"""
    )
    for _ in range(min(stops, MOST_STOPS)):
        page.keyboard.press("Tab")
    walked = page.evaluate("measuring.walked()")
    missing = [] if walked["stops"] or not stops else ["focus: Tab leads nowhere"]
    return missing + list(dict.fromkeys(walked["problems"]))
