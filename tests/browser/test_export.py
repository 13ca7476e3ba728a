"""The exported file in a real browser, from disk, without a network: it shows what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser import showcase, showcase_beside
from tests.browser.measuring import measure
from tests.browser.showcase import EXPECTED, VISIBLE
from tests.browser.visiting import READY, tall_rows, wide_elements
from tests.browser.watching import NARROW, WIDE, Size, Tab, Tabs

BOTH = pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "claude"
    showcase.build(folder)
    return folder


@pytest.fixture(scope="module")
def file(config: Path) -> Path:
    return export(config, config.parent / "session.html")


def export(config: Path, to: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "unspool", "--config-dir", str(config), "export", showcase.ID, "--html"]
    subprocess.run([*command, "-o", str(to), *options], check=True, timeout=120, capture_output=True)
    return to


def opened(tab: Tab, file: Path) -> Page:
    """Open the file, and wait until it listens to keys. Nothing but the file itself may be asked for."""
    page = tab.go(file.as_uri())
    page.wait_for_selector(READY)
    return page


@BOTH
@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_everything_is_seen_without_a_click(size: Size, dark: bool, file: Path, tabs: Tabs) -> None:
    tab = tabs(size, dark=dark)
    page = opened(tab, file)
    page.keyboard.press("End")
    page.wait_for_selector(".agents tbody tr")
    seen = page.inner_text("body")
    assert {name: words for name, words in VISIBLE.items() if words not in seen} == {}
    assert {address for address in tab.asked if not address.startswith("data:")} == {file.as_uri()}
    assert wide_elements(page) == []
    assert tall_rows(page, ".row .line") == []


def test_the_pictures_are_in_the_file(file: Path, tabs: Tabs) -> None:
    page = opened(tabs(), file)
    sizes = set()
    for picture in page.locator(".rows img").all():
        picture.scroll_into_view_if_needed()
        sizes.add(
            tuple(
                picture.evaluate("async (one) => { await one.decode(); return [one.naturalWidth, one.naturalHeight] }")
            )
        )
    assert {(240, 120), (240, 96)} <= sizes


def test_a_step_opens_as_on_the_page(file: Path, tabs: Tabs) -> None:
    page = opened(tabs(), file)
    page.locator(".row > .line", has_text="Edit").first.click()
    page.wait_for_selector(".drawer .patch")
    first = EXPECTED.patch_line
    removed = page.locator(".drawer .patch .minus i").first.inner_text()
    added = [one.locator("i").nth(1).inner_text() for one in page.locator(".drawer .patch .plus").all()]
    assert (removed, added) == (str(first), [str(first), str(first + 1), str(first + 2)])
    page.locator(".row > .line", has_text="uv run pytest -q --color=yes").first.click()
    page.wait_for_selector(".drawer .terminal")
    assert "FAILED tests/test_cart.py::test_total" in page.inner_text(".drawer .terminal")
    for tab, words in {
        "input": "Run the tests",
        "result": "1 failed, 11 passed",
        "structured": "Error",
        "raw": f"{showcase.ID}.jsonl:",
    }.items():
        page.click(f'.drawer .tabs [data-tab="{tab}"]')
        page.wait_for_selector(f'.drawer .detail[data-tab="{tab}"]')
        assert words in page.inner_text(".drawer"), tab


def test_an_agent_of_an_agent_is_in_the_file(file: Path, tabs: Tabs) -> None:
    page = opened(tabs(), file)
    page.locator(f'.nested[data-agent="{showcase_beside.ORDERS[1].agent}"] > summary').click()
    page.locator(f'.nested[data-agent="{showcase_beside.NESTED.agent}"] > summary').click()
    page.wait_for_function("words => document.body.innerText.includes(words)", arg=showcase_beside.NESTED.report)


def test_the_keys_work(file: Path, tabs: Tabs) -> None:
    page = opened(tabs(), file)
    for key, words in (("e", "uv run pytest -q --color=yes"), ("c", "compacted"), ("b", showcase.ABANDONED)):
        page.keyboard.press("g")
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_function(
            "words => document.querySelector('.rows .current')?.innerText.includes(words)", arg=words
        )
    page.keyboard.press("1")
    page.wait_for_selector('.session[data-depth="prompts"]')
    assert "uv run pytest" not in page.inner_text(".rows")


def test_the_file_has_the_keys_of_the_page(file: Path, tabs: Tabs) -> None:
    page = opened(tabs(), file)
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    listed = {cap.inner_text() for cap in page.query_selector_all("#keys dt kbd")}
    assert {"?", "t", "j", "k", "J", "K", "e", "c", "b", "a", "/", "1", "2", "3", "4", "y", "P", "R"} <= listed
    page.keyboard.press("Escape")
    page.wait_for_selector("#keys", state="detached")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


@BOTH
def test_a_step_of_the_file_has_the_heading_of_the_page_and_is_closed_like_there(
    size: Size, file: Path, tabs: Tabs
) -> None:
    page = opened(tabs(size), file)
    page.locator(".row > .line", has_text="uv run pytest -q --color=yes").first.click()
    page.wait_for_selector(".drawer .terminal")
    assert page.inner_text(".drawer h2 .name") == "Bash"
    page.eval_on_selector(".drawer h2 .target", "one => { one.textContent = 'python -m long '.repeat(30) }")
    box = page.locator(".drawer h2").bounding_box()
    assert box is not None
    assert box["height"] < 160
    assert "turn" in page.inner_text(".drawer p.facts")
    page.click(".drawer .close")
    page.wait_for_selector(".drawer", state="hidden")


def test_the_review_of_the_file_has_a_diff_per_file_with_its_prompts_and_leads_to_the_steps(
    file: Path, tabs: Tabs
) -> None:
    tab = tabs()
    page = opened(tab, file)
    page.keyboard.press("R")
    page.wait_for_selector(".review:not([hidden]) .file")
    names = page.eval_on_selector_all(".review h3", "all => all.map((one) => one.firstChild.textContent.trim())")
    assert len(names) == int(re.findall(r"(\d+) files?", page.inner_text(".strip"))[0])
    assert page.eval_on_selector_all(
        ".review .file", "all => all.every((one) => one.querySelector('.patch .plus, .patch .minus'))"
    )
    assert page.eval_on_selector_all(
        ".review .file", "all => all.every((one) => one.querySelector('q').textContent.length > 3)"
    )
    numbers = page.eval_on_selector_all(".review .patch:first-of-type i", "all => all.map((one) => one.textContent)")
    assert any(number.isdigit() for number in numbers)
    assert page.query_selector(".review u") is None
    assert not page.locator(".rows").is_visible()
    assert page.eval_on_selector(".review .patch", "one => one.clientWidth") > 1000
    page.locator(".review a[data-key]").first.click()
    page.wait_for_selector(".drawer .patch")
    assert not page.locator(".review").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("R")
    page.wait_for_selector(".review:not([hidden])")
    page.keyboard.press("Escape")
    assert page.locator(".rows").is_visible()
    assert {address for address in tab.asked if not address.startswith("data:")} == {file.as_uri()}


def test_everybody_can_use_the_file(file: Path, tabs: Tabs) -> None:
    assert measure(opened(tabs(), file)) == []


def test_everybody_can_use_an_opened_step_of_the_file(file: Path, tabs: Tabs) -> None:
    page = opened(tabs(), file)
    page.locator(".row > .line", has_text="uv run pytest -q --color=yes").first.click()
    page.wait_for_selector(".drawer .terminal")
    assert measure(page) == []


def test_everybody_can_use_the_review_of_the_file_and_print_it(file: Path, tabs: Tabs) -> None:
    tab = tabs()
    page = tab.go(f"{file.as_uri()}?review=1")
    page.wait_for_selector(".review:not([hidden]) .file")
    assert measure(page) == []
    page.emulate_media(media="print")
    assert page.locator(".review .patch").first.is_visible()
    assert not page.locator(".rows").is_visible()


def test_a_file_without_steps_offers_no_review(config: Path, tmp_path: Path, tabs: Tabs) -> None:
    page = opened(tabs(), export(config, tmp_path / "few.html", "--depth", "prompts"))
    assert page.query_selector("[data-show=review]") is None


def test_the_whole_file_is_printed(file: Path, tabs: Tabs) -> None:
    page = opened(tabs(), file)
    page.emulate_media(media="print")
    hidden = page.eval_on_selector_all(
        ".rows .block", "all => all.filter((one) => getComputedStyle(one).contentVisibility !== 'visible').length"
    )
    assert hidden == 0
    assert not page.locator(".tools").is_visible()


def test_what_is_folded_is_found(file: Path, tabs: Tabs) -> None:
    page = opened(tabs(), file)
    page.keyboard.press("/")
    page.keyboard.type("fourth row is off")
    page.wait_for_selector(".found .matches a")
    assert "fourth row is off" in page.inner_text(".found").lower()


def test_without_script_it_can_be_read(file: Path, tabs: Tabs) -> None:
    tab = tabs(script=False)
    page = tab.go(file.as_uri())
    seen = page.inner_text("body")
    assert {name for name, words in VISIBLE.items() if words not in seen} <= {"an agent of an agent"}


def test_only_the_turns_asked_for_are_in_the_file(config: Path, tmp_path: Path, tabs: Tabs) -> None:
    some = export(config, tmp_path / "some.html", "--turns", "2..3")
    page = opened(tabs(), some)
    seen = page.inner_text(".rows")
    assert "What about half a cent?" in seen
    assert "Check the whole shop with agents." in seen
    assert "Delete the old branch." not in page.inner_text("body")
    assert "Delete the old branch." not in some.read_text()


def test_the_file_names_no_other_place(file: Path) -> None:
    html = file.read_text()
    loads = re.findall(r"""(?:src|href|action|poster|srcset)\s*=\s*["']?((?:https?:)?//[^"'\s>]+)""", html)
    assert set(loads) <= {showcase.PR, "https://docs.example.com/decimal"}
    assert re.search(r"""<meta http-equiv="Content-Security-Policy" content="default-src (?:'|&#39;)none""", html)
    assert file.stat().st_mode & 0o777 == 0o600
