"""Every page in Firefox too: no error, as wide as its window, readable; and what is pressed does what it should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import chromium, firefox, showcase
from tests.browser.addresses import PAGES, SESSION
from tests.browser.firefox import FIREFOX, FirefoxTab
from tests.browser.measuring import HEIGHT, NARROW, SCRIPT, WIDE
from tests.browser.visiting import visited
from tests.serving import Served


@pytest.fixture(scope="module")
def executable() -> Path:
    if found := chromium.find(program=FIREFOX):
        return found
    if chromium.is_required():
        pytest.fail("there is no Firefox, and `CI` is set")
    pytest.skip("there is no Firefox; `make test` installs one where it can")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("firefox")
    showcase.build(place / "claude")
    with visited(place / "claude", place / "unspool") as one:
        while len(one.get("/sessions.json").json["rows"]) < 2 or one.get("/sessions.json").json["undigested"]:
            pass
        yield one


@pytest.fixture(scope="module")
def started(executable: Path, served: Served) -> Iterator[FirefoxTab]:
    with firefox.running(executable) as tab:
        tab.let_in(served.address, served.cookie, served.page_key)
        yield tab


@pytest.fixture
def tab(started: FirefoxTab) -> Iterator[FirefoxTab]:
    """The tab; what went wrong in it fails the test."""
    started.problems.clear()
    started.resize(WIDE, HEIGHT)
    yield started
    started.evaluate("0")  # what came until now is read
    assert started.problems == []


@pytest.mark.parametrize("path", PAGES)
def test_everybody_can_use_a_page_in_firefox(path: str, served: Served, tab: FirefoxTab) -> None:
    tab.go(served.address + path)
    tab.until(f"document.body.textContent.toLowerCase().includes({PAGES[path].lower()!r})")
    tab.run(SCRIPT)
    problems = []
    for width in (NARROW, WIDE):
        tab.resize(width, HEIGHT)
        problems += [
            f"{width} {problem}" for problem in tab.evaluate("[...measuring.layout(), ...measuring.colours()]")
        ]
    assert problems + tab.evaluate("measuring.structure()") == []


def test_the_palette_leads_to_a_session_in_firefox(served: Served, tab: FirefoxTab) -> None:
    tab.go(f"{served.address}/library")
    tab.press("Control", "k")
    tab.until("document.querySelectorAll('#palette li').length > 3")
    tab.type("cart tot")
    tab.until(f"document.querySelector('#palette li')?.innerText.includes({showcase.TITLE!r})")
    tab.press("Enter")
    tab.until(f"location.pathname === {SESSION!r}")


def test_keys_theme_and_menu_work_in_firefox(served: Served, tab: FirefoxTab) -> None:
    tab.go(f"{served.address}/library")
    tab.press("?")
    tab.until("document.querySelector('#keys').open")
    tab.click("#keys .close")
    tab.until("!document.querySelector('#keys').open")
    tab.press("t")
    tab.until("document.documentElement.dataset.theme === 'dark'")
    tab.evaluate("localStorage.removeItem('theme')")
    tab.resize(NARROW, HEIGHT)
    tab.click(".menu")
    tab.until("document.querySelector('.places a[href=\"/usage\"]').checkVisibility()")
    tab.click('.places a[href="/usage"]')
    tab.until("location.pathname === '/usage'")


def test_a_step_opens_and_closes_in_firefox(served: Served, tab: FirefoxTab) -> None:
    tab.go(served.address + SESSION)
    tab.until("document.querySelector('.session[data-ready]') !== null")
    for key in "jjj":
        tab.press(key)
    tab.press("Enter")
    tab.until("!document.querySelector('#drawer').hidden && document.querySelector('#drawer').innerText.length > 20")
    tab.press("Escape")
    tab.until("document.querySelector('#drawer').hidden")


def test_a_word_is_searched_in_firefox(served: Served, tab: FirefoxTab) -> None:
    tab.go(f"{served.address}/search")
    tab.click("main input[type=search]")
    tab.type("rounding")
    tab.press("Enter")
    tab.until("location.search.includes('q=rounding') && document.querySelector('mark') !== null")
