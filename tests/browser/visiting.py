"""A server whose link was used, and tabs that are let in: many tests look at one server, and its link works once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext, Page

from tests.browser.watching import Tab
from tests.serving import Served, serving

READY = ".session[data-ready]"


@contextmanager
def visited(config: Path, home: Path) -> Iterator[Served]:
    """Serve a folder."""
    with serving(config, home=home) as served:
        served.enter()
        yield served


def let_in(context: BrowserContext, served: Served) -> None:
    """Give a browser the cookie and the page key, as the link would."""
    name, _, value = served.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": served.address, "httpOnly": True, "sameSite": "Strict"}])
    origin, key = json.dumps(served.address), json.dumps(served.page_key)
    context.add_init_script(f"if (location.origin === {origin}) localStorage.setItem('unspool-key', {key})")


def visit(tab: Tab, served: Served, path: str = "/") -> Page:
    """Open a page."""
    tab.allow(served.address)
    let_in(tab.context, served)
    answer = tab.page.goto(served.address + path)
    assert answer is not None
    assert answer.status == 200, f"{path}: {answer.status}"
    return tab.page


def visit_session(tab: Tab, served: Served, id: str, query: str = "") -> Page:
    """Open a session's page, and wait until it listens to keys."""
    page = visit(tab, served, f"/session/{id}{query}")
    page.wait_for_selector(READY)
    return page


def wide_elements(page: Page) -> list[str]:
    """Return what makes a page wider than its window, if it is."""
    found: list[str] = page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] :
             [...document.querySelectorAll("body *")]
               .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
               .slice(0, 8).map((one) => `${one.tagName}.${one.className} ${one.getBoundingClientRect().right}`)"""
    )
    return found


def tall_rows(page: Page, selector: str, most: float = 36) -> list[str]:
    """Return the rows that are taller than a row may be."""
    found: list[str] = page.evaluate(
        """([selector, most]) => [...document.querySelectorAll(selector)]
             .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height > most + 0.5)
             .slice(0, 8).map((one) => `${one.getBoundingClientRect().height} ${one.innerText.slice(0, 60)}`)""",
        [selector, most],
    )
    return found


def inline(html: str) -> list[str]:
    """Return what a page must not hold: styles and handlers in attributes, scripts that are no file of ours."""
    tags = re.findall(r"<[a-zA-Z][^>]*>", html)
    wrong = [tag for tag in tags if re.search(r"\s(style|on[a-z]+)\s*=", re.sub(r'"[^"]*"', '""', tag))]
    return wrong + [tag for tag in tags if tag.startswith("<script") and "src=" not in tag]
