"""A page that updates itself says when its server is gone, comes back with it, and says how to sign in again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.visiting import let_in, visited
from tests.browser.watching import NARROW, Tab, Tabs
from tests.serving import Served, serving
from unspool.testing.build import assistant, session, tool_use, user

UP_TO_DATE = "() => document.documentElement.dataset.connection === 'connected'"

THREE_TICKS = """() => new Promise((done) => {
  let left = 3;
  const id = setInterval(() => { left -= 1; if (!left) { clearInterval(id); done(); } }, 1000);
})"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "claude"
    session(user("Publish it."), assistant(tool_use("Bash", command="git push"))).save(folder)
    return folder


def watch(tab: Tab, served: Served) -> Page:
    """Open the first page and wait until it hears from its server."""
    tab.allow(served.address)
    let_in(tab.context, served)
    tab.page.goto(served.address)
    tab.until(UP_TO_DATE)
    return tab.page


def forgive(tab: Tab, *expected: str) -> None:
    """Close the page, and forget what a browser itself says about a server that does not answer."""
    tab.page.close()
    tab.problems[:] = [one for one in tab.problems if not any(words in one for words in expected)]


def clocks(page: Page) -> list[str]:
    return page.locator("time[data-since]").all_inner_texts()


def test_a_dead_server_is_told_at_once_and_clocks_stop(config: Path, tmp_path: Path, tabs: Tabs) -> None:
    tab = tabs()
    with visited(config, tmp_path / "unspool") as served:
        page = watch(tab, served)
    page.wait_for_selector("#connection:visible")
    assert page.inner_text("#connection").startswith("Connection lost, retrying.")
    before = clocks(page)
    # Three ticks of the page's own clock, however long they take.
    page.evaluate(THREE_TICKS)
    assert clocks(page) == before
    forgive(tab, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET")


def test_a_server_that_hangs_is_noticed_by_its_silence(config: Path, tmp_path: Path, tabs: Tabs) -> None:
    tab = tabs()
    tab.page.clock.install()
    with visited(config, tmp_path / "unspool") as served:
        page = watch(tab, served)
        os.kill(served.pid, signal.SIGSTOP)
        try:
            page.clock.fast_forward(13_000)
            page.wait_for_selector("#connection:visible")
        finally:
            os.kill(served.pid, signal.SIGCONT)
        page.clock.fast_forward(5_000)
        tab.until(UP_TO_DATE)
        assert not page.is_visible("#connection")
        forgive(tab)


def test_with_the_same_token_a_restarted_server_is_found_again(config: Path, tmp_path: Path, tabs: Tabs) -> None:
    tab, token = tabs(), ("--token-file", str(tmp_path / "token"))
    with serving(config, *token, home=tmp_path / "unspool") as served:
        served.enter()
        page = watch(tab, served)
    page.wait_for_selector("#connection:visible")
    with serving(config, *token, "--port", str(served.port), home=tmp_path / "unspool"):
        tab.until(UP_TO_DATE)
        assert not page.is_visible("#connection")
        page.reload()
        tab.until(UP_TO_DATE)
        forgive(tab, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET")


def test_a_page_that_is_signed_out_says_what_to_do_and_stops_asking(config: Path, tmp_path: Path, tabs: Tabs) -> None:
    tab = tabs()
    with serving(config, home=tmp_path / "unspool") as served:
        page = tab.go(served.link)
        tab.until(UP_TO_DATE)
    with serving(config, "--port", str(served.port), home=tmp_path / "unspool") as again:
        tab.until("() => document.documentElement.dataset.connection === 'signed-out'")
        assert "Open the newest link that unspool serve printed" in page.inner_text("#connection")
        asked = len(tab.asked)
        page.evaluate("() => new Promise((done) => setTimeout(done, 1500))")
        assert len(tab.asked) == asked
        # The new link in another tab of the same browser: this page goes on without a reload.
        other = tab.context.new_page()
        other.goto(again.link)
        tab.until(UP_TO_DATE)
        other.close()
        forgive(tab, "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "ERR_CONNECTION_RESET", "401", "popup: ")


@pytest.mark.parametrize("address", [lambda served: served.address, lambda served: served.link], ids=["page", "link"])
def test_a_browser_that_is_not_signed_in_reads_how_to_get_in(
    address: Callable[[Served], str], config: Path, tmp_path: Path, tabs: Tabs
) -> None:
    tab = tabs(NARROW)
    with visited(config, tmp_path / "unspool") as served:
        tab.allow(served.address)
        answer = tab.page.goto(address(served))
        assert answer is not None
        assert answer.status == 401
        words = tab.page.inner_text("main")
        assert "Open the newest link that it printed." in words
        for secret in (served.cookie.partition("=")[2], served.page_key, served.link.partition("key=")[2]):
            assert secret not in answer.text()
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        forgive(tab, "401")
