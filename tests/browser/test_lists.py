"""Lists in a real browser: rows come when they are scrolled to, menus take effect, everything fits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
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
    # On a phone a session is a card of two lines, and a document of the library as long as its words.
    most = {"/sessions": 60, "/library": 90}.get(path[:9].rstrip("/"), 36) if size == NARROW else 36
    assert max(heights, default=0) <= most


def test_on_a_phone_long_values_wrap_and_what_stands_beside_a_title_is_below_it(tabs: Tabs, served: Served) -> None:
    tab = entered(tabs, served, NARROW)
    page = tab.go(f"{served.address}/sessions/values?facet=file")
    cut = "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.innerText)"
    assert page.eval_on_selector_all(".values td", cut) == []
    page.goto(f"{served.address}/usage?period=session&range=all")
    widths = page.eval_on_selector_all("table.usage td > a + .faint", "all => all.map(one => one.clientWidth)")
    assert widths
    assert min(widths) >= 100
    page.set_viewport_size({"width": 1024, "height": 900})
    lefts = page.eval_on_selector_all(
        "table.usage td:has(> a + .faint)",
        "all => all.map(one => one.getBoundingClientRect().right - one.children[1].getBoundingClientRect().left)",
    )
    assert min(lefts) >= 60
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    page.goto(f"{served.address}/files?path=src")
    boxes = page.eval_on_selector_all(".contents li a", "all => all.map(one => one.getBoundingClientRect().toJSON())")
    assert all(above["bottom"] + 4 <= below["top"] for above, below in pairwise(boxes))


def test_the_scale_of_a_chart_is_in_sight_at_every_width(tabs: Tabs, served: Served) -> None:
    tab = entered(tabs, served, NARROW)
    page = tab.go(f"{served.address}/usage?range=all")
    in_sight = """all => all.filter(one => one.checkVisibility()).filter((one) => {
      const [box, view] = [one, one.closest(".scroll")].map((each) => each.getBoundingClientRect());
      return box.left >= view.left - 1 && box.right <= view.right + 1;
    }).length"""
    for width in (390, 768, 1024, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        page.reload()
        assert page.eval_on_selector_all(".columns .scale", in_sight) == 2, width


@pytest.mark.parametrize("width", [390, 480, 640, 721, 760, 860, 960, 1024, 1120, 1280, 1440, 1600, 1920])
def test_the_title_of_a_session_can_be_read_at_every_width(tabs: Tabs, served: Served, width: int) -> None:
    page = entered(tabs, served, (width, 900)).go(f"{served.address}/sessions")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cells = page.eval_on_selector_all("td.title", "cells => cells.map(cell => cell.clientWidth)")
    assert min(cells) >= 200
    shown = page.evaluate(
        """[...document.querySelectorAll("#rows tr:first-child td")]
             .filter((cell) => cell.checkVisibility()).map((cell) => cell.classList[0])"""
    )
    assert {"sign", "title", "project", "last", "errors", "cost"} <= set(shown)


@pytest.mark.parametrize("width", [721, 768, 860, 940, 1024, 1120, 1440])
def test_headings_of_the_list_are_apart(tabs: Tabs, served: Served, width: int) -> None:
    page = entered(tabs, served, (width, 900)).go(f"{served.address}/sessions?sort=last")
    ends = page.eval_on_selector_all(
        ".sessions thead th",
        """all => all.filter((one) => one.checkVisibility() && !one.querySelector(".away")).map((one) => {
             const range = document.createRange();
             range.selectNodeContents(one);
             const { left, right } = range.getBoundingClientRect();
             return [left, right];
           })""",
    )
    assert all(one[1] + 5 <= after[0] for one, after in pairwise(ends)), ends


def test_on_a_phone_a_session_is_a_card_of_two_lines_and_fields_can_be_typed_into(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served, NARROW).go(f"{served.address}/sessions?has=error")
    tops = page.evaluate(
        """[...document.querySelectorAll("#rows tr:first-child td")].filter((cell) => cell.checkVisibility())
             .map((cell) => [cell.classList[0], Math.round(cell.getBoundingClientRect().top)])"""
    )
    assert len({top for name, top in tops if name != "sign"}) == 2
    assert "1 error" in page.inner_text("#rows tr:first-child")
    for path in ("/sessions", "/search", "/usage", "/sql"):
        page.goto(f"{served.address}{path}")
        selector = "main :is(input:not([type=hidden], [type=checkbox]), select, textarea)"
        widths = page.eval_on_selector_all(
            selector, "fields => fields.filter(one => one.checkVisibility()).map(one => [one.name, one.offsetWidth])"
        )
        assert [name for name, width in widths if width < 100] == [], path


def test_rows_come_when_they_are_scrolled_to_until_all_are_there(tabs: Tabs, served: Served) -> None:
    rows = [row["id"] for row in served.get("/sessions.json?sort=title").json["rows"]]
    page = entered(tabs, served, (1440, 200)).go(f"{served.address}/sessions?sort=title&limit=3")
    page.wait_for_selector(f"#rows tr:nth-child({len(rows)})")
    assert page.eval_on_selector_all("#rows tr", "rows => rows.map(row => row.dataset.session)") == rows
    page.wait_for_selector("#next", state="detached")


def test_a_menu_is_typed_into_takes_several_values_and_keeps_the_rest_of_the_address(
    tabs: Tabs, served: Served
) -> None:
    page = entered(tabs, served).go(f"{served.address}/sessions?sort=cost")
    page.click("[data-facet=project] summary")
    page.keyboard.type("tide")
    values = page.locator("[data-facet=project] li:visible .value")
    assert values.all_inner_texts() == ["tidewatch"]
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert parse_qs(urlsplit(page.url).query) == {"sort": ["cost"], "project": ["tidewatch"]}
    page.click("[data-facet=project] summary")
    page.check("[data-facet=project] input[value=ledger]")
    with page.expect_navigation():
        page.click("[data-facet=project] button")
    query = parse_qs(urlsplit(page.url).query)
    assert query == {"sort": ["cost"], "project": ["tidewatch", "ledger"]}
    expected = served.get(f"/sessions.json?{urlencode(query, doseq=True)}").json
    assert {row["project"] for row in expected["rows"]} == {"tidewatch", "ledger"}
    assert page.locator("#rows tr").count() == len(expected["rows"]) > 0


def test_the_list_is_walked_with_keys_and_enter_opens(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served).go(f"{served.address}/sessions?group=project")
    ids = page.eval_on_selector_all("#rows tr[data-session]", "rows => rows.map(row => row.dataset.session)")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    assert page.get_attribute("[data-chosen]", "data-session") == ids[1]
    page.keyboard.press("G")
    assert page.get_attribute("[data-chosen]", "data-session") == ids[-1]
    page.keyboard.press("g")
    page.keyboard.press("g")
    assert page.get_attribute("[data-chosen]", "data-session") == ids[0]
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert f"/session/{ids[0]}" in page.url


@pytest.mark.parametrize(
    "path", ["/usage?period=project&range=all", "/search?q=tide", "/library/plans", "/library/history"]
)
def test_every_list_is_walked_with_the_same_keys(tabs: Tabs, served: Served, path: str) -> None:
    page = entered(tabs, served).go(f"{served.address}{path}")
    page.keyboard.press("?")
    assert "next entry" in page.inner_text("#keys")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.wait_for_selector("[data-chosen]")
    with page.expect_navigation():
        page.keyboard.press("Enter")


def test_the_list_says_last_activity_and_when_a_session_began(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served, (1920, 900)).go(f"{served.address}/sessions")
    assert page.inner_text("th[aria-sort]").startswith("Last activity")
    assert page.is_visible("th.started")
    rows = served.get("/sessions.json").json["rows"]
    shown = page.eval_on_selector_all("td.last time", "times => times.map(time => time.title)")
    assert shown == [row["last"][:16].replace("T", " ") for row in rows]


def test_without_a_script_a_button_filters_and_a_link_leads_on(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served, script=False).go(f"{served.address}/sessions?limit=3")
    assert page.locator("#rows tr").count() == 3
    with page.expect_navigation():
        page.click("#next")
    assert "offset=3" in page.url
    page.fill("input[name=q]", "tide")
    with page.expect_navigation():
        page.click("form.filters > button")
    assert page.locator("#rows tr").count() == len(served.get("/sessions.json?q=tide").json["rows"]) == 1
    page.goto(f"{served.address}/sessions")
    page.click("[data-facet=project] summary")
    page.check("[data-facet=project] input[value=ledger]")
    page.check("[data-facet=project] input[value=notes]")
    with page.expect_navigation():
        page.click("[data-facet=project] button")
    assert parse_qs(urlsplit(page.url).query)["project"] == ["ledger", "notes"]
    assert page.locator("#rows tr").count() == len(
        served.get("/sessions.json?project=ledger&project=notes").json["rows"]
    )


def test_tips_of_charts_work_by_focus_and_touch_and_a_day_is_a_link(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served).go(f"{served.address}/usage?range=all")
    stop = page.locator(".calendar a[tabindex='0']")
    stop.focus()
    assert page.inner_text(".tip") == stop.get_attribute("aria-label")
    page.keyboard.press("ArrowLeft")
    moved = page.locator(".calendar a[tabindex='0']")
    assert page.inner_text(".tip") == moved.get_attribute("aria-label")
    assert moved.get_attribute("aria-label") != page.locator(".calendar a").last.get_attribute("aria-label")
    address = moved.get_attribute("href")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url == f"{served.address}{address}"
    page.goto(f"{served.address}/usage?range=all")
    touch = """(one) => one.dispatchEvent(
                 new PointerEvent("click", { bubbles: true, cancelable: true, pointerType: "touch" }))"""
    column = page.locator(".columns a").last
    column.evaluate(touch)
    assert page.inner_text(".tip").split("\n")[0] == (column.get_attribute("aria-label") or "").split("\n")[0]
    with page.expect_navigation():
        column.evaluate(touch)


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


def test_a_star_is_set_with_a_key_and_without_scripts_with_a_form(tabs: Tabs, served: Served) -> None:
    page = entered(tabs, served).go(f"{served.address}/sessions?sort=title")
    page.keyboard.press("j")
    page.keyboard.press("s")
    page.wait_for_selector("[data-chosen] button.on")
    first = page.get_attribute("[data-chosen]", "data-session")
    page.goto(f"{served.address}/sessions?starred=1")
    shown = page.eval_on_selector_all("#rows tr", "rows => rows.map(row => row.dataset.session)")
    assert shown == [first]
    page.click("[data-session] .star button")
    page.wait_for_selector("[data-session] .star button:not(.on)")
    assert served.get("/sessions.json?starred=1").json["rows"] == []
    with page.expect_navigation():
        page.keyboard.press("j")
        page.keyboard.press("m")
    page.fill("[name=tags]", "later")
    with page.expect_navigation():
        page.click("form.notes button")
    assert [row["id"] for row in served.get("/sessions.json?tag=later").json["rows"]] == [first]
