"""Everybody can use pages of sessions with long names, long titles and odd orders, also with all folds open."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser import crowded
from tests.browser.auditing import unfold
from tests.browser.measuring import SCRIPT, WIDTHS, ask_axe, measure, resize
from tests.browser.visiting import READY, visit, visit_session, visited
from tests.browser.watching import NARROW, WIDE, Tabs
from tests.serving import Served

SESSION = f"/session/{crowded.LONG}"
PAGES = (
    "/sessions",
    "/sessions?group=project",
    "/usage?period=session&range=all",
    f"/session/{crowded.OPENING}",
    f"/session/{crowded.STEPS}",
    SESSION,
    f"{SESSION}/cost",
    f"{SESSION}/time",
    f"{SESSION}/review",
    f"{SESSION}/share",
    f"/files?path={crowded.FILE}",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("crowded")
    crowded.build(place / "claude")
    with visited(place / "claude", place / "unspool") as running:
        while len((data := running.get("/sessions.json").json)["rows"]) < 3 or data["undigested"]:
            pass
        yield running


@pytest.mark.parametrize("path", PAGES)
def test_everybody_can_use_a_page_with_long_names(path: str, served: Served, tabs: Tabs) -> None:
    page = visit(tabs(), served, path)
    if page.query_selector(".session"):
        page.wait_for_selector(READY)
    assert measure(page) == []


def test_a_page_with_everything_unfolded_fits(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, crowded.LONG, "?depth=all")
    # But the agent whose file is gone: the console would report the answer 404.
    page.evaluate("(agent) => document.querySelector(`.nested[data-agent='${agent}']`).remove()", crowded.LOST)
    unfold(page)
    page.wait_for_selector(".nested .inner .row")
    page.evaluate(SCRIPT)
    assert [problem for width in WIDTHS for problem in layout(page, width)] == []


@pytest.mark.parametrize("name", ["Bash", "Write", "Agent", crowded.MCP])
def test_everybody_can_use_a_step_with_long_names(name: str, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, crowded.LONG, "?depth=all")
    names = page.locator(".row.call > a.line").filter(has=page.locator(".name", has_text=name[:20]))
    page.goto(f"{served.address}{names.first.get_attribute('href')}")
    page.wait_for_selector(READY)
    page.wait_for_selector("#drawer .detail")
    page.evaluate(SCRIPT)
    assert [problem for width in WIDTHS for problem in layout(page, width)] == []
    assert [*ask_axe(page)] == []


@pytest.mark.parametrize(("size", "lines"), [(WIDE, 2), (NARROW, 3)], ids=["wide", "narrow"])
@pytest.mark.parametrize("path", [SESSION, f"{SESSION}/cost", f"{SESSION}/review", f"{SESSION}/time"])
def test_a_title_that_is_a_whole_prompt_takes_few_lines(
    path: str, size: tuple[int, int], lines: int, served: Served, tabs: Tabs
) -> None:
    heading = visit(tabs(size), served, path).locator("h1")
    height, line = heading.evaluate("(one) => [one.clientHeight, parseFloat(getComputedStyle(one).lineHeight)]")
    assert round(height / line) <= lines
    assert crowded.PROMPT[:100] in (heading.get_attribute("title") or "")


def test_the_facts_of_a_step_are_whole_beside_long_names(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, crowded.LONG, "?depth=all")
    line = page.locator(".row.call > a.line").filter(has_text=crowded.MCP[:20])
    line.click()
    page.wait_for_selector("#drawer .detail")
    right, most = line.evaluate(
        "(one) => [one.querySelector('.facts').getBoundingClientRect().right, one.getBoundingClientRect().right]"
    )
    assert right <= most
    # A name that fits is not cut for it.
    short = page.locator(".row.call > a.line .name").filter(has_text="Bash").first
    assert short.evaluate("(one) => one.scrollWidth <= one.clientWidth")


@pytest.mark.parametrize("width", [1024, 1100, 1199, 1200, 1399, 1400, 1599, 1600, 1699, 1700, 1920])
def test_the_name_of_a_tool_of_claude_code_is_whole_beside_an_opened_step(
    width: int, served: Served, tabs: Tabs
) -> None:
    page = visit_session(tabs((width, 900)), served, crowded.LONG, "?depth=all")
    page.locator(".row.call > a.line", has_text="ExitPlanMode").click()
    page.wait_for_selector("#drawer .detail")
    names = page.locator(".row.call > a.line .name").filter(
        has_text=re.compile("^(Bash|Read|Edit|Write|ExitPlanMode)$")
    )
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    assert names.count() >= 10
    assert names.evaluate_all(cut) == []


def test_an_agent_whose_file_is_gone_says_so(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = visit_session(tab, served, crowded.LONG)
    fold = page.locator(f".nested[data-agent='{crowded.LOST}']")
    fold.locator("summary").click()
    fold.get_by_text("cannot be loaded").wait_for()
    # The browser itself reports the answer 404.
    assert [problem for problem in tab.problems if "404" not in problem] == []
    tab.problems.clear()


def layout(page: Page, width: int) -> list[str]:
    """Return what does not fit at a width."""
    resize(page, width)
    return [f"{width} {problem}" for problem in page.evaluate("measuring.layout()")]
