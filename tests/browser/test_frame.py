"""What every page has: keys and what they are, the palette, the colours, a width that fits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import showcase
from tests.browser.visiting import visit, visited
from tests.browser.watching import NARROW, WIDE, Size, Tab, Tabs
from tests.serving import Served

KEYS = {"?", "Ctrl-K", "g i", "g s", "g f", "g u", "t", "/"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("frame")
    showcase.build(place / "claude")
    with visited(place / "claude", place / "unspool") as running:
        yield running


def test_the_link_leads_to_the_first_page(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    tab.go(served.next_link())
    tab.page.wait_for_url(f"{served.address}/")
    assert tab.page.title()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])
def test_the_question_mark_lists_the_keys(size: Size, served: Served, tabs: Tabs) -> None:
    tab = entered(tabs(size), served)
    tab.page.keyboard.press("?")
    tab.until("() => document.querySelector('#keys').open")
    assert {cap.inner_text() for cap in tab.page.query_selector_all("#keys dt kbd")} >= KEYS
    tab.page.keyboard.press("Escape")
    tab.until("() => !document.querySelector('#keys').open")


def test_a_few_letters_lead_to_a_session(served: Served, tabs: Tabs) -> None:
    tab = entered(tabs(), served)
    tab.page.keyboard.press("Control+k")
    tab.until("() => document.querySelectorAll('#palette li').length > 3")
    tab.page.keyboard.type("cart tot")
    tab.until("words => document.querySelector('#palette li')?.innerText.includes(words)", showcase.TITLE)
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(f"**/session/{showcase.ID}")


def test_letters_in_a_field_are_letters(served: Served, tabs: Tabs) -> None:
    tab = entered(tabs(), served)
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.type("t?t")
    assert tab.page.input_value("#palette input") == "t?t"
    assert not tab.page.evaluate("document.querySelector('#keys').open")


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_the_colours_are_those_of_the_system_until_somebody_chooses(dark: bool, served: Served, tabs: Tabs) -> None:
    tab = entered(tabs(dark=dark), served)
    assert is_dark(tab) == dark
    tab.page.keyboard.press("t")
    tab.page.keyboard.press("t")
    assert tab.page.evaluate("document.documentElement.dataset.theme") == "light"
    assert not is_dark(tab)
    tab.page.reload()
    assert not is_dark(tab)


def entered(tab: Tab, served: Served) -> Tab:
    """Open the first page."""
    visit(tab, served)
    return tab


def is_dark(tab: Tab) -> bool:
    """Whether the ground is darker than the words on it."""
    ground, words = tab.page.evaluate(
        """() => {
          const colour = (one, name) => getComputedStyle(one)[name].match(/[\\d.]+/g).map(Number);
          const grounds = [document.body, document.documentElement].map((one) => colour(one, "backgroundColor"));
          const sum = ([red, green, blue]) => red + green + blue;
          return [sum(grounds.find((one) => one[3] !== 0)), sum(colour(document.body, "color"))];
        }"""
    )
    return bool(ground < words)
