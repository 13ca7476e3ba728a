"""A real browser, tabs in which nothing goes unseen, and a real server for it to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser import chromium
from tests.browser.trap import Trap, listening
from tests.browser.watching import WIDE, Size, Tab, Tabs


@pytest.fixture(scope="session")
def executable() -> Path:
    """Where the browser is; a test that needs it does without it only where nobody said it must be there."""
    if found := chromium.find():
        return found
    if chromium.is_required():
        pytest.fail("there is no Chromium, and `CI` is set")
    pytest.skip("there is no Chromium; `make test` installs one where it can")


# Per module: while Playwright runs, its event loop is that of the thread, and no other test could have one.
@pytest.fixture(scope="module")
def browser(executable: Path) -> Iterator[Browser]:
    """The browser."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=chromium.flags())
        yield started
        started.close()


@pytest.fixture
def tabs(browser: Browser) -> Iterator[Tabs]:
    """Opens tabs; what went wrong in any of them fails the test."""
    opened: list[Tab] = []

    def open_tab(size: Size = WIDE, *, dark: bool = True, script: bool = True) -> Tab:
        opened.append(Tab(browser, size, dark=dark, script=script))
        return opened[-1]

    yield open_tab
    for tab in opened:
        tab.close()
    assert [problem for tab in opened for problem in tab.problems] == []


@pytest.fixture
def trap() -> Iterator[Trap]:
    """A server that remembers what it was asked for."""
    with listening() as made:
        yield made
