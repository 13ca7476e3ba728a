"""The folder of exported pages in a real browser, from disk: the index is searched, and its links lead to the pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.visiting import READY, wide_elements
from tests.browser.watching import NARROW, WIDE, Size, Tabs
from unspool.demo import write_demo


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection")
    write_demo(folder / "claude")
    command = [sys.executable, "-m", "unspool", "--config-dir", str(folder / "claude"), "export", "--html", "--all"]
    subprocess.run([*command, "-o", str(folder / "pages")], check=True, timeout=120, capture_output=True)
    return folder / "pages" / "index.html"


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])
def test_typing_filters_the_index_and_a_link_opens_a_session(size: Size, index: Path, tabs: Tabs) -> None:
    page = tabs(size).go(index.as_uri())
    rows = page.locator("tbody tr:visible")
    every = rows.count()
    page.keyboard.press("/")
    page.keyboard.type("nearest name")
    assert 0 < rows.count() < every
    assert page.locator("#count").inner_text() == f"{rows.count()} of {every} sessions"
    assert wide_elements(page) == []
    page.keyboard.type(" nowhere at all")
    assert rows.count() == 0
    assert page.locator("#none").is_visible()
    page.keyboard.press("Escape")
    assert rows.count() == every
    session = rows.first.locator("a").first.get_attribute("href")
    page = tabs(size).go((index.parent / str(session)).as_uri())
    page.wait_for_selector(READY)
    assert page.get_by_role("link", name="All sessions").get_attribute("href") == "../index.html"
    assert wide_elements(page) == []


def test_the_index_can_be_read_without_javascript(index: Path, tabs: Tabs) -> None:
    page = tabs(script=False).go(index.as_uri())
    assert page.locator("tbody tr:visible").count() > 10
