"""The list of sessions beside a session: on wide screens alone, by mouse and by keys, and remembered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser import showcase
from tests.browser.addresses import SESSION
from tests.browser.measuring import measure
from tests.browser.visiting import READY, visit, visited, wide_elements
from tests.browser.watching import Tabs
from tests.serving import Served
from unspool.testing.build import assistant, session, user

OTHER = "be000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("beside")
    showcase.build(place / "claude")
    session(user("Another task of the shop"), assistant("Done."), id=OTHER, cwd=showcase.CWD).save(place / "claude")
    with visited(place / "claude", place / "unspool") as running:
        while running.get("/sessions.json").json["undigested"]:
            pass
        yield running


def opened(tabs: Tabs, served: Served, width: int) -> Page:
    page = visit(tabs((width, 900)), served, SESSION)
    page.wait_for_selector(READY)
    return page


def test_the_sessions_of_the_project_are_beside_it_and_lead_to_each_other(served: Served, tabs: Tabs) -> None:
    page = opened(tabs, served, 1920)
    page.wait_for_selector(".beside li a[aria-current]")
    assert showcase.TITLE in page.inner_text(".beside [aria-current]")
    assert wide_elements(page) == []
    page.locator(".beside li a", has_text="Another task of the shop").click()
    page.wait_for_url(f"**/session/{OTHER}?list=**")
    page.wait_for_selector(".beside li a[aria-current]")
    assert "Another task of the shop" in page.inner_text(".beside [aria-current]")
    assert "list=" in (page.get_attribute(".strip a[rel]", "href") or "")


def test_the_list_is_one_tab_stop_with_arrow_keys_inside(served: Served, tabs: Tabs) -> None:
    page = opened(tabs, served, 1600)
    page.wait_for_selector(".beside li a[aria-current]")
    assert page.locator(".beside li a[tabindex='0']").count() == 1
    page.locator(".beside li a[tabindex='0']").focus()
    page.keyboard.press("Home")
    first = page.evaluate("document.activeElement.title")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.title") != first
    assert page.locator(".beside li a[tabindex='0']").count() == 1


def test_a_hidden_list_stays_hidden(served: Served, tabs: Tabs) -> None:
    page = opened(tabs, served, 1920)
    page.wait_for_selector(".beside li a")
    page.keyboard.press("B")
    assert not page.locator(".beside-list").is_visible()
    page.reload()
    page.wait_for_selector(READY)
    assert page.get_attribute(".beside button", "aria-expanded") == "false"
    assert not page.locator(".beside-list").is_visible()
    page.click(".beside button")
    page.wait_for_selector(".beside li a[aria-current]")


@pytest.mark.parametrize("width", [390, 1024, 1440, 1599])
def test_narrower_screens_have_no_list_and_ask_for_none(width: int, served: Served, tabs: Tabs) -> None:
    tab = tabs((width, 900))
    page = visit(tab, served, SESSION)
    page.wait_for_selector(READY)
    assert not page.locator(".beside").is_visible()
    assert not [address for address in tab.asked if "/beside?" in address or address.endswith("/beside")]
    assert wide_elements(page) == []


def test_everybody_can_use_the_list(served: Served, tabs: Tabs) -> None:
    page = opened(tabs, served, 1920)
    page.wait_for_selector(".beside li a[aria-current]")
    assert measure(page) == []
