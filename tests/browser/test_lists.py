"""Lists in a real browser: rows come when they are scrolled to, menus take effect, everything fits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.browser.visiting import let_in, visited
from tests.browser.watching import NARROW, WIDE, Size, Tab, Tabs
from tests.serving import Served
from unspool.demo.write import write_demo

PAGES = ["/sessions", "/usage", "/usage?period=project", "/search?q=tide", "/sql?q=SELECT+*+FROM+sessions", "/library",
         "/library/plans", "/library/history", "/library/settings", "/library/versions"]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("lists")
    write_demo(place / "claude")
    with visited(place / "claude", place / "unspool") as running:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = running.get("/sessions.json").json
            if found["sessions"] > 10 and not found["undigested"]:
                break
        yield running


def entered(tabs: Tabs, served: Served, size: Size = WIDE, *, script: bool = True) -> Tab:
    tab = tabs(size, script=script)
    let_in(tab.context, served)
    return tab


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_and_its_rows_are_low(tabs: Tabs, served: Served, path: str, size: Size) -> None:
    page = entered(tabs, served, size).go(f"{served.address}{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    heights = page.evaluate("[...document.querySelectorAll('main tbody tr, main li a')].map(row => row.offsetHeight)")
    assert max(heights, default=0) <= 36


def test_rows_come_when_they_are_scrolled_to_until_all_are_there(tabs: Tabs, served: Served) -> None:
    rows = [row["id"] for row in served.get("/sessions.json?sort=title").json["rows"]]
    page = entered(tabs, served, (1440, 200)).go(f"{served.address}/sessions?sort=title&limit=3")
    page.wait_for_selector(f"#rows tr:nth-child({len(rows)})")
    assert page.eval_on_selector_all("#rows tr", "rows => rows.map(row => row.dataset.session)") == rows
    page.wait_for_selector("#next", state="detached")


def test_a_menu_takes_effect_at_once_and_keeps_the_rest_of_the_address(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served).go(f"{served.address}/sessions?has=error&sort=cost")
    with page.expect_navigation():
        page.select_option("select[name=project]", "tidewatch")
    query = parse_qs(urlsplit(page.url).query)
    assert query == {"has": ["error"], "sort": ["cost"], "project": ["tidewatch"]}
    expected = served.get(f"/sessions.json?{urlencode(query, doseq=True)}").json
    assert page.locator("#rows tr").count() == len(expected["rows"]) > 0


def test_without_a_script_a_button_filters_and_a_link_leads_on(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served, script=False).go(f"{served.address}/sessions?limit=3")
    assert page.locator("#rows tr").count() == 3
    with page.expect_navigation():
        page.click("#next")
    assert "offset=3" in page.url
    page.fill("input[name=q]", "tide")
    with page.expect_navigation():
        page.click("form.filters button")
    assert page.locator("#rows tr").count() == len(served.get("/sessions.json?q=tide").json["rows"]) == 1


def test_a_question_is_asked_with_a_key(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served).go(f"{served.address}/sql")
    page.fill("textarea", "SELECT 6 * 7 AS answer")
    with page.expect_navigation():
        page.press("textarea", "Control+Enter")
    assert page.inner_text("main table tbody td") == "42"


def test_a_hit_opens_the_step_it_was_found_in(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served).go(f"{served.address}/search?{urlencode({'q': 'tide', 'in': 'tool_result'})}")
    with page.expect_navigation():
        page.click(".hits li a")
    assert "/session/" in page.url
    assert "step=" in page.url
