"""The frame of every page on a phone, with a screen reader, without scripts, on paper, and with a finger."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import showcase
from tests.browser.measuring import ask_axe, measure
from tests.browser.visiting import let_in, visit, visited
from tests.browser.watching import NARROW, Tabs
from tests.serving import Served

PLACES = ("/sessions", "/search", "/usage", "/insights", "/sql", "/library")
SMALLEST_FOR_A_FINGER = 36


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("layout")
    showcase.build(place / "claude")
    with visited(place / "claude", place / "unspool") as running:
        yield running


def test_on_a_phone_the_pages_are_behind_a_button(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(NARROW), served, "/library")
    menu = page.get_by_role("button", name="Menu")
    assert shown_places(page) == []
    menu.click()
    assert shown_places(page) == [*PLACES]
    assert menu.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert shown_places(page) == []
    assert page.evaluate("document.activeElement.classList.contains('menu')")
    menu.click()
    page.get_by_role("link", name="Usage").click()
    page.wait_for_url("**/usage")


def test_a_screen_that_gets_wider_has_the_pages_at_its_side(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(NARROW), served, "/library")
    page.set_viewport_size({"width": 1024, "height": 700})
    assert shown_places(page) == [*PLACES]
    assert not page.get_by_role("button", name="Menu").is_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_without_scripts_every_page_can_be_reached_and_no_button_does_nothing(
    width: int, served: Served, tabs: Tabs
) -> None:
    page = visit(tabs((width, 800), script=False), served, "/library")
    assert shown_places(page) == [*PLACES]
    assert [button for button in page.locator(".rail button").all() if button.is_visible()] == []


def test_places_and_keys_are_opened_and_closed_by_hand(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(NARROW), served, "/library")
    for opener, name in (("Go to", "Go to"), ("Keys", "Keys")):
        page.get_by_role("button", name="Menu").click()
        page.get_by_role("button", name=opener).click()
        dialog = page.get_by_role("dialog", name=name)
        dialog.wait_for()
        assert [*ask_axe(page)] == []
        dialog.get_by_role("button", name="Close").click()
        assert not dialog.is_visible()
        page.get_by_role("button", name="Menu").click()


def test_a_screen_reader_is_told_which_place_is_chosen(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(), served, "/library")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Go to")
    page.get_by_role("option").first.wait_for()
    first = field.get_attribute("aria-activedescendant")
    page.keyboard.press("ArrowDown")
    second = field.get_attribute("aria-activedescendant")
    assert first != second
    assert page.locator(f"#{second}").get_attribute("aria-selected") == "true"
    assert page.get_by_role("option", selected=True).count() == 1
    assert measure(page) == []
    field.fill("no such place anywhere")
    page.get_by_role("option", name="Search for", selected=True).wait_for()
    assert page.get_by_role("option").count() == 1


def test_what_happened_is_said_in_a_region_that_was_there_before(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(), served, "/library")
    region = page.locator(".toast[role=status]")
    assert region.inner_text() == ""
    page.evaluate("() => { window.region = document.querySelector('.toast'); }")
    page.keyboard.press("t")
    assert region.inner_text() == "dark colours"
    assert page.evaluate("window.region === document.querySelector('.toast')")


def test_the_first_tab_stop_leads_past_the_pages(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(), served, "/library")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_paper_is_light_and_has_neither_rail_nor_buttons(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(dark=True), served, "/library/settings")
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.locator(".rail").is_visible()
    ground, words = page.evaluate(
        "() => ['--bg', '--text'].map((name) => getComputedStyle(document.documentElement).getPropertyValue(name))"
    )
    assert ground > words, "hexadecimal: light is more"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_a_finger_presses_is_larger(browser: Browser, served: Served) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    let_in(context, served)
    page = context.new_page()
    page.goto(f"{served.address}/library/history")
    page.get_by_role("button", name="Menu").tap()
    page.get_by_role("link", name="Sessions").wait_for()
    heights = page.evaluate(
        """() => [...document.querySelectorAll(".rail a, button, input, select")].filter((one) => one.checkVisibility())
             .map((one) => one.getBoundingClientRect().height)"""
    )
    context.close()
    assert len(heights) >= len(PLACES)
    assert min(heights) >= SMALLEST_FOR_A_FINGER


def shown_places(page: Page) -> list[str]:
    """Return where the links lead that can be seen, but for the first page."""
    links = [link for link in page.locator(".places a").all() if link.is_visible()]
    return [path for link in links if (path := str(link.get_attribute("href"))) != "/"]
