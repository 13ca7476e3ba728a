"""Cost, review and time of a session in a real browser: they fit, numbers lead to steps, nothing needs a script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser import showcase
from tests.browser.measuring import resize
from tests.browser.test_pages import await_rows
from tests.browser.visiting import inline, visit, visited, wide_elements
from tests.browser.watching import NARROW, WIDE, Size, Tabs
from tests.serving import Served

SESSION = f"/session/{showcase.ID}"
PAGES = {
    f"{SESSION}/cost": "Most expensive requests",
    f"{SESSION}/cost?order=output": "Requests",
    "/cost?since=2020-01-01": "By session",
    f"{SESSION}/time": "waiting for a prompt",
    f"{SESSION}/review": "Side by side",
    f"{SESSION}/review?view=split&wrap=1": "Side by side",
    f"/files?path={quote(showcase.FILES[0])}": showcase.TITLE,
}
"""Every page, and words that are on it."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    config: Path = tmp_path_factory.mktemp("analysis") / "claude"
    showcase.build(config)
    with visited(config, config.parent / "unspool") as running:
        await_rows(running)
        yield running


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("size", [WIDE, (768, 1024), NARROW], ids=["1440", "768", "390"])
@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_the_page_fits_its_window(tabs: Tabs, served: Served, path: str, size: Size, dark: bool) -> None:
    tab = tabs(size, dark=dark)
    page = visit(tab, served, path)
    assert PAGES[path].lower() in page.inner_text("main").lower()
    assert wide_elements(page) == []
    assert inline(page.content()) == []
    small = page.evaluate(SMALL_CONTROLS)
    assert small == []


SMALL_CONTROLS = """() => [...document.querySelectorAll("main a, main button, main summary, main input, main select")]
  .filter((one) => one.checkVisibility() && !one.closest("svg, p, li, td, th, h1, h2, h3, dd"))
  .filter((one) => one.getBoundingClientRect().height < 24)
  .map((one) => `${one.outerHTML.slice(0, 90)} ${one.getBoundingClientRect().height}`).slice(0, 5)"""
"""Controls under 24 px; links inside sentences and cells are exempt (WCAG 2.5.8)."""


@pytest.mark.parametrize("path", PAGES)
def test_the_page_says_the_same_without_scripts(tabs: Tabs, served: Served, path: str) -> None:
    page = visit(tabs(WIDE, script=False), served, path)
    assert PAGES[path].lower() in page.content().lower()


def test_the_cost_of_a_session_leads_to_its_most_expensive_request_in_two_clicks(tabs: Tabs, served: Served) -> None:
    page = visit(tabs(WIDE), served, SESSION)
    page.wait_for_selector(".session[data-ready]")
    page.click(".strip a[href$='/cost']")
    page.wait_for_selector(".expensive")
    page.click(".expensive .cost >> nth=0")
    page.wait_for_selector("#drawer .detail")
    assert "?step=" in page.url


def test_a_hunk_leads_to_its_turn_and_its_step(tabs: Tabs, served: Served) -> None:
    page = visit(tabs(WIDE), served, f"{SESSION}/review")
    prompt = page.inner_text(".because .prompt >> nth=0")
    page.click(".because .turn >> nth=0")
    page.wait_for_selector(".session[data-ready]")
    assert "turn=" in page.url or "step=" in page.url
    assert prompt.split("\n")[0][:20] in page.inner_text("#transcript")
    page.go_back()
    page.click(".because .step >> nth=0")
    page.wait_for_selector("#drawer .detail")


def test_the_whole_file_opens_in_its_place_and_the_patch_is_copied(tabs: Tabs, served: Served) -> None:
    tab = tabs(WIDE)
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit(tab, served, f"{SESSION}/review")
    before = page.locator(".file").first.locator("tr").count()
    page.click(".file a[data-expand]:has-text('whole file') >> nth=0")
    tab.until("(before) => document.querySelector('.file').querySelectorAll('tr').length >= before", before)
    assert page.url.endswith("/review")
    page.click("[data-copy]")
    page.wait_for_selector(".toast")
    assert "diff --git a/src/shop/cart.py" in page.evaluate("navigator.clipboard.readText()")


def test_a_hunk_that_only_adds_takes_the_whole_width_side_by_side(tabs: Tabs, served: Served) -> None:
    page = visit(tabs(WIDE), served, f"{SESSION}/review?view=split")
    new = page.locator(".file", has_text="test_orders.py").locator("table")
    changed = page.locator(".file", has_text="cart.py").locator("table")
    assert new.evaluate_all("all => all.map((one) => one.className)") == ["unified"]
    assert changed.evaluate_all("all => all.map((one) => one.className)") == ["split"]
    assert page.locator(".lines .none").count() < changed.locator("tr").count()


def test_on_a_phone_the_sides_of_a_diff_are_below_each_other_with_their_signs(tabs: Tabs, served: Served) -> None:
    page = visit(tabs(NARROW), served, f"{SESSION}/review?view=split")
    row = page.locator(".lines table.split tr", has=page.locator(".code.minus")).first
    old, new = (row.locator(f".code.{side}").bounding_box() for side in ("minus", "plus"))
    assert old is not None
    assert new is not None
    assert old["y"] + old["height"] <= new["y"] + 1
    assert min(old["width"], new["width"]) > 250
    overlaps = """all => all.filter((one) => one.checkVisibility() &&
        one.previousElementSibling.getBoundingClientRect().right > one.getBoundingClientRect().left + 0.5).length"""
    assert page.eval_on_selector_all(".lines table.split .code", overlaps) == 0
    resize(page, 240)  # lines wrap
    cut = "all => all.filter((one) => one.checkVisibility() && one.scrollHeight > one.clientHeight + 3).length"
    assert page.eval_on_selector_all(".lines table.split .code", cut) == 0
    sign = "(one) => getComputedStyle(one, '::before').content"
    assert [row.locator(f".code.{side}").evaluate(sign) for side in ("minus", "plus")] == ['"−"', '"+"']
    same = page.locator(".lines table.split tr", has=page.locator(".code.same")).first
    assert len([one for one in same.locator(".code").all() if one.is_visible()]) == 1


def test_a_bar_tells_what_it_is_by_pointer_and_focus_and_leads_to_its_step(tabs: Tabs, served: Served) -> None:
    tab = tabs(WIDE)
    page = visit(tab, served, f"{SESSION}/time")
    page.hover(".waterfall td.chart >> nth=0")
    tab.until("() => !document.querySelector('p.tip').hidden")
    told = page.inner_text("p.tip")
    assert "after the start" in told
    page.focus("svg.strip a >> nth=0")
    assert page.inner_text("p.tip").startswith("turn")
    page.click(".waterfall .what a >> nth=0")
    page.wait_for_selector("#drawer .detail")


def test_a_turn_of_the_strip_opens_its_waterfall(tabs: Tabs, served: Served) -> None:
    page = visit(tabs(NARROW), served, f"{SESSION}/time")
    page.focus("svg.strip a[tabindex='0']")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url("**turn=**")
    assert page.inner_text("h2#turn").lower().startswith("turn")
