"""The payloads are worth their name: many, all different, each with its number, and alive where nobody escapes."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Browser

from tests.browser.payloads import Payload, payloads
from tests.browser.trap import Trap
from tests.browser.watching import Tab

ORIGIN = "http://127.0.0.1:1"


def test_there_are_at_least_200_and_no_two_are_the_same() -> None:
    every = payloads(ORIGIN)
    assert len(every) >= 200
    assert len({re.sub(r"pwn-\d+|alert\(\d+\)", "", payload.text) for payload in every}) == len(every)
    assert len({payload.family for payload in every}) == 13


@pytest.mark.parametrize("payload", payloads(ORIGIN), ids=lambda payload: str(payload.number))
def test_a_payload_carries_its_number_and_no_other(payload: Payload) -> None:
    assert set(re.findall(r"pwn-(\d+)|alert\((\d+)\)", payload.text)) <= {
        (str(payload.number), ""),
        ("", str(payload.number)),
    }
    assert re.search(rf"/pwn-{payload.number}\b|alert\({payload.number}\)", payload.text)


def test_where_nobody_escapes_most_of_what_a_browser_understands_works(browser: Browser, trap: Trap) -> None:
    every = [payload for payload in payloads(trap.origin) if payload.family not in {"Markdown", "templates"}]
    for payload in every:
        trap.put(f"/page-{payload.number}", f"<!doctype html><title>x</title><p>{payload.text}</p>")
    frames = "".join(f"<iframe src=/page-{payload.number}></iframe>" for payload in every)
    tab = Tab(browser)
    tab.go(trap.put("/", f"<!doctype html><title>all</title>{frames}"))
    deadline = time.monotonic() + 20
    while len(worked(tab, trap)) < 100 and time.monotonic() < deadline:
        tab.page.wait_for_timeout(50)
    tab.close()
    assert len(worked(tab, trap)) >= 100


def worked(tab: Tab, trap: Trap) -> set[int]:
    """Return the numbers of the payloads that did what they wanted to."""
    dialogs = (re.match(r"dialog: alert (\d+)$", problem) for problem in tab.problems)
    asked = (re.match(r"/pwn-(\d+)", path) for path in trap.hits)
    return {int(found[1]) for found in (*dialogs, *asked) if found}
