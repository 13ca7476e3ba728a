"""The rig sees what it is there to see: each thing that no page of ours may do, done by a page that does it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.trap import Trap, listening
from tests.browser.watching import Tab, Tabs

POLICY = "default-src 'none'; script-src 'self'"
MISDEEDS = {
    "dialog: alert 1": "<script>alert(1)</script>",
    "dialog: confirm 2": "<script>confirm(2)</script>",
    "request: GET http://elsewhere.example/a.png": "<img src='http://elsewhere.example/a.png'>",
    "request: GET http://elsewhere.example/b": "<iframe src='http://elsewhere.example/b'></iframe>",
    "request: POST http://elsewhere.example/c": "<script>navigator.sendBeacon('http://elsewhere.example/c')</script>",
    "request: GET http://elsewhere.example/d.css": "<style>@import url(http://elsewhere.example/d.css);</style>",
    "request: GET http://elsewhere.example/e": "<meta http-equiv=refresh content='0;url=http://elsewhere.example/e'>",
    "websocket: ws://elsewhere.example/f": "<script>new WebSocket('ws://elsewhere.example/f')</script>",
    "console: oh no": "<script>console.error('oh no')</script>",
    "exception: nobody": "<script>setTimeout(() => { throw new Error('nobody') })</script>",
    "popup: about:blank": "<script>window.open('about:blank')</script>",
}


@pytest.mark.parametrize("expected", MISDEEDS)
def test_a_misdeed_is_a_problem(expected: str, browser: Browser, trap: Trap) -> None:
    tab = Tab(browser)
    tab.go(trap.put("/", f"<!doctype html><title>page</title>{MISDEEDS[expected]}"))
    await_problem(tab, expected)
    tab.close()
    assert any(problem.startswith(expected) for problem in tab.problems), tab.problems


def test_a_violation_of_the_content_policy_is_a_problem(browser: Browser, trap: Trap) -> None:
    tab = Tab(browser)
    page = "<!doctype html><title>page</title><b onclick=x>never runs</b><script>alert(1)</script>"
    tab.go(trap.put("/", page, Content_Security_Policy=POLICY))
    await_problem(tab, "console: content policy: script-src")
    tab.close()
    assert not [problem for problem in tab.problems if problem.startswith("dialog")]
    assert [problem for problem in tab.problems if "content policy: script-src" in problem]


def test_another_port_of_this_machine_is_elsewhere(browser: Browser, trap: Trap) -> None:
    tab = Tab(browser)
    with listening() as other:
        tab.go(trap.put("/", f"<!doctype html><title>page</title><img src='{other.origin}/pwn-1'>"))
        tab.close()
        assert f"request: GET {other.origin}/pwn-1" in tab.problems
        assert other.hits == ["/pwn-1"]


def test_a_page_that_keeps_to_itself_has_no_problem(trap: Trap, tabs: Tabs, tmp_path: Path) -> None:
    trap.put("/own.js", "document.title = 'seen'", Content_Type="text/javascript")
    tab = tabs()
    tab.go(trap.put("/", "<!doctype html><title>page</title><script src=/own.js></script><p>quiet"))
    tab.until("() => document.title === 'seen'")
    file = tmp_path / "page.html"
    file.write_text("<!doctype html><title>page</title><script>document.title = 'seen'</script>")
    tab.go(file.as_uri())
    tab.until("() => document.title === 'seen'")
    assert tab.metrics()["Nodes"] > 0


def test_without_script_a_page_is_still_a_page(trap: Trap, tabs: Tabs) -> None:
    tab = tabs(script=False)
    page = tab.go(trap.put("/", "<!doctype html><title>page</title><p>words</p><script>alert(1)</script>"))
    assert page.inner_text("p") == "words"


def await_problem(tab: Tab, expected: str) -> None:
    """Let the page come to what it does late: each turn of its loop may bring it."""
    deadline = time.monotonic() + 10
    while not any(problem.startswith(expected) for problem in tab.problems) and time.monotonic() < deadline:
        tab.page.wait_for_timeout(20)
