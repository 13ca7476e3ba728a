"""A page as a real browser opens it: an address in, the time to its first content, its nodes and its memory out.

Rules
  1. Every measurement has a browser of its own, with nothing in its cache.
  2. First content is when both have come: the browser's own mark of the first painted text or picture, and the first
     element that a selector names. An empty frame is no content.
  3. Memory is that of the page's renderer: what is resident in it, shared libraries included.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import chromium
from tests.browser.visiting import let_in
from tests.serving import Served

DEADLINE = 120_000
"""Milliseconds after which a page is given up."""

_FIRST = """
(selector) => {
  const observer = new MutationObserver(() => {
    if (!document.querySelector(selector)) return;
    window.firstSeen = performance.now();
    observer.disconnect();
  });
  observer.observe(document, { childList: true, subtree: true });
}
"""


class Opened(msgspec.Struct, frozen=True):
    """What opening a page took."""

    first_content: float
    """Seconds."""
    loaded: float
    """Seconds until the browser calls it loaded."""
    nodes: int
    memory: int
    """Bytes resident in the renderer."""
    script_memory: int


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, or say that there is none."""
    executable = chromium.find()
    if executable is None:
        raise SystemExit("there is no Chromium; `make browser` installs one where it can")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=executable, args=[*chromium.flags(), "--enable-precise-memory-info"]
        )
        try:
            yield started
        finally:
            started.close()


@contextmanager
def window(started: Browser) -> Iterator[Page]:
    """Open a window as large as a screen."""
    context = started.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark")
    context.set_default_timeout(DEADLINE)
    try:
        yield context.new_page()
    finally:
        context.close()


def opened(address: str, selector: str, served: Served | None = None) -> Opened:
    """Open a page in a browser of its own, which a server has let in already if it is one of a server."""
    with browser() as started, window(started) as page:
        if served is not None:
            let_in(page.context, served)
        page.add_init_script(f"({_FIRST})({msgspec.json.encode(selector).decode()})")
        page.goto(address, wait_until="load")
        page.wait_for_function(
            "() => window.firstSeen !== undefined && performance.getEntriesByType('paint').length > 1"
        )
        return measured(started, page)


def measured(started: Browser, page: Page) -> Opened:
    """Measure a page that was opened with its first content marked."""
    first, loaded = page.evaluate(
        """() => [
          Math.max(window.firstSeen, performance.getEntriesByName('first-contentful-paint')[0].startTime),
          performance.getEntriesByType('navigation')[0].loadEventEnd,
        ]"""
    )
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    nodes = page.evaluate("document.evaluate('count(//*) + count(//text())', document, null, 1, null).numberValue")
    return Opened(first / 1000, loaded / 1000, round(nodes), renderer_memory(started), round(found["JSHeapUsedSize"]))


def renderer_memory(started: Browser) -> int:
    """Return the bytes resident in the largest renderer."""
    session = started.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return max(resident(one["id"]) for one in processes if one["type"] == "renderer")


def resident(pid: int) -> int:
    """Return the bytes resident in a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """Return the user and system time that a process has spent, with what its children spent that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def settle(pid: int, seconds: float = 120) -> None:
    """Wait until a process has nothing to do: less than a fiftieth of a core for a second."""
    deadline = time.monotonic() + seconds
    busy = 1.0
    while busy > 0.02 and time.monotonic() < deadline:
        before = cpu_seconds(pid)
        time.sleep(1)
        busy = cpu_seconds(pid) - before
