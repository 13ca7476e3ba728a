"""The page of a session in a real browser: everything is seen, numbers are exact, keys do what they say."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser import showcase, showcase_beside
from tests.browser.showcase import EXPECTED, VISIBLE
from tests.browser.visiting import inline, tall_rows, visit, visit_session, visited, wide_elements
from tests.browser.watching import NARROW, WIDE, Size, Tabs
from tests.serving import Served

BOTH = pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("session")
    showcase.build(place / "claude")
    with visited(place / "claude", place / "unspool") as running:
        yield running


# What is seen


@BOTH
@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_everything_is_seen_without_a_click(size: Size, dark: bool, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(size, dark=dark), served, showcase.ID)
    page.keyboard.press("End")
    page.wait_for_selector(".agents tbody tr")
    seen = page.inner_text("body")
    assert {name: words for name, words in VISIBLE.items() if words not in seen} == {}


@BOTH
def test_the_pasted_picture_and_the_screenshot_are_seen(size: Size, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(size), served, showcase.ID)
    for picture, (width, height) in ((showcase.PASTED, (240, 120)), (showcase.SCREENSHOT, (240, 96))):
        shown = page.locator(f'img[src$="{hashlib.sha256(picture).hexdigest()}"]').first
        shown.scroll_into_view_if_needed()
        assert shown.evaluate(
            "async (one) => { await one.decode(); return [one.naturalWidth, one.naturalHeight] }"
        ) == [
            width,
            height,
        ]
        assert shown.is_visible()


@BOTH
def test_a_row_is_low_and_the_page_as_wide_as_its_window(size: Size, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(size), served, showcase.ID)
    assert page.locator(".row .line").count() > 20
    assert tall_rows(page, ".row .line") == []
    assert wide_elements(page) == []


def test_the_numbers_are_exact(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    strip = " ".join(page.inner_text(".strip").split())
    made = showcase.ledger()
    assert f"{EXPECTED.calls} calls" in strip
    assert f"{EXPECTED.failed} error" in strip
    assert f"+{EXPECTED.added} −{EXPECTED.removed}" in strip
    assert f"{EXPECTED.compactions} compaction" in strip
    assert f"{EXPECTED.agents} agents" in strip
    assert f"${made.cost_micros / 1e6:.2f}" in strip
    assert "PR #42" in strip
    twin = served.get(f"/session/{showcase.ID}.json").json
    usage = twin["head"]["usage"]
    assert usage["cost"] == made.cost_micros
    assert usage["output"] == sum(one.output for one in made.requests)
    assert usage["cache_read"] == sum(one.read for one in made.requests)


def test_a_failed_command_says_how_and_how_long(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    row = page.locator(".row.failed", has_text="uv run pytest -q --color=yes")
    words = row.inner_text()
    assert "✗" in words
    assert f"{EXPECTED.failing_bash_seconds} s" in words
    assert re.search(r"exit 1", words)


def test_the_parts_of_the_page_hold_no_style_and_no_script(served: Served) -> None:
    base = f"/session/{showcase.ID}"
    for path in (base, f"{base}?depth=all", f"{base}/agents", f"{base}/chart", f"{base}?turns=1..3"):
        answer = served.get(path)
        assert answer.status == 200
        assert inline(answer.text) == [], path


# The drawer


def test_a_patch_has_the_true_numbers_of_its_lines(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    open_row(page, "Edit")
    changed = page.locator(".drawer .patch .minus, .drawer .patch .plus").all()
    lines = [
        (line.get_attribute("class"), [number.inner_text() for number in line.locator("i").all()]) for line in changed
    ]
    first = EXPECTED.patch_line
    assert lines == [
        ("minus", [str(first), ""]),
        ("plus", ["", str(first)]),
        ("plus", ["", str(first + 1)]),
        ("plus", ["", str(first + 2)]),
    ]


def test_the_colours_of_a_terminal_are_kept_and_its_codes_are_not(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    open_row(page, "uv run pytest -q --color=yes")
    output = page.locator(".drawer .terminal").first
    assert "FAILED tests/test_cart.py::test_total - assert 41.6 == 42.0" in output.inner_text()
    assert "\x1b" not in page.content()
    failed = output.locator("span", has_text=re.compile("^FAILED$")).first
    passing = output.locator("span", has_text=re.compile("^41.6$")).first
    colours = [one.evaluate("one => getComputedStyle(one).color") for one in (failed, passing)]
    assert len({*colours, output.evaluate("one => getComputedStyle(one).color")}) == 3


def test_a_question_shows_what_was_chosen(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    open_row(page, showcase.QUESTION)
    for option in showcase.OPTIONS:
        assert option in page.inner_text(".drawer .question")
    assert page.inner_text(".drawer .question .chosen").startswith("● Half up")


@pytest.mark.parametrize(
    ("tab", "words"),
    [
        ("input", "uv run pytest -q --color=yes"),
        ("result", "1 failed, 11 passed"),
        ("structured", "Error: Exit code 1"),
        ("raw", f"{showcase.ID}.jsonl:"),
    ],
)
def test_every_side_of_a_step_can_be_seen(tab: str, words: str, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    open_row(page, "uv run pytest -q --color=yes")
    page.click(f'.drawer .tabs [data-tab="{tab}"]')
    page.wait_for_selector(f'.drawer .detail[data-tab="{tab}"]')
    assert words in page.inner_text(".drawer")
    assert f"tab={tab}" in page.url


def test_an_agent_of_an_agent_is_read_where_it_was_started(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    outer = showcase_beside.ORDERS[1]
    page.locator(f'.nested[data-agent="{outer.agent}"] > summary').click()
    inner = page.locator(f'.nested[data-agent="{showcase_beside.NESTED.agent}"] > summary')
    inner.click()
    page.wait_for_function("words => document.body.innerText.includes(words)", arg=showcase_beside.NESTED.report)


def test_the_address_is_the_state(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = visit_session(tab, served, showcase.ID)
    open_row(page, "uv run pytest -q --color=yes")
    page.keyboard.press("2")
    page.keyboard.press(".")
    page.wait_for_selector('.drawer .detail[data-tab="raw"]')
    address, words = page.url, page.inner_text(".drawer")
    assert "depth=answers" in address
    other = tabs()
    visit(other, served)
    other.page.goto(address)
    other.page.wait_for_selector('.drawer .detail[data-tab="raw"]')
    assert other.page.inner_text(".drawer") == words
    assert other.page.get_attribute(".session", "data-depth") == "answers"


# Keys


def test_j_and_k_go_from_step_to_step_and_the_drawer_stays(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.keyboard.press("j")
    first = current(page)
    page.keyboard.press("j")
    second = current(page)
    assert first != second
    page.keyboard.press("k")
    assert current(page) == first
    page.keyboard.press("Enter")
    page.wait_for_selector(".drawer .detail")
    page.keyboard.press("j")
    page.wait_for_function("key => document.querySelector('.drawer .detail')?.dataset.key === key", arg=current(page))
    page.keyboard.press("Escape")
    page.wait_for_selector(".drawer", state="hidden")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("J", "The total in this screenshot is wrong"),
        ("e", "uv run pytest -q --color=yes"),
        ("c", "155"),
        ("b", showcase.ABANDONED),
    ],
)
def test_a_key_leads_to_the_next_of_its_kind(key: str, words: str, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.keyboard.press(key)
    page.wait_for_function("words => document.querySelector('.rows .current')?.innerText.includes(words)", arg=words)
    assert is_in_view(page, ".rows .current")


def test_capital_letters_lead_to_prompts_and_errors_before(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.keyboard.press("G")
    page.wait_for_selector(".rows .current")
    page.keyboard.press("K")
    page.wait_for_function(
        "() => document.querySelector('.rows .current')?.innerText.includes('Delete the old branch')"
    )
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.wait_for_function("() => scrollY === 0")


def test_a_shows_the_agents_and_the_nested_one_among_them(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.keyboard.press("a")
    page.wait_for_selector(".agents tbody tr >> nth=3")
    table = page.inner_text(".agents")
    for order in (*showcase_beside.ORDERS, showcase_beside.NESTED):
        assert order.about in table


@pytest.mark.parametrize(("key", "depth"), [("1", "prompts"), ("2", "answers"), ("3", "steps"), ("4", "all")])
def test_figures_choose_the_depth(key: str, depth: str, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.keyboard.press(key)
    page.wait_for_selector(f'.session[data-depth="{depth}"]')
    seen = page.inner_text(".rows")
    assert "The total in this screenshot is wrong" in seen
    assert ("Half a cent is rounded up from now on." in seen) == (depth != "prompts")
    assert ("uv run pytest -q --color=yes" in seen) == (depth in {"steps", "all"})


def test_slash_finds_in_the_session_what_is_folded_too(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.keyboard.press("/")
    page.keyboard.type("fourth row is off")
    page.wait_for_selector(".found .matches a")
    page.click(".found .matches a")
    page.wait_for_selector(".drawer .detail")
    assert "The fourth row is off by forty cents" in page.inner_text(".drawer")


def test_y_copies_a_link_to_the_step(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit_session(tab, served, showcase.ID)
    page.keyboard.press("e")
    page.wait_for_selector(".rows .current")
    page.keyboard.press("y")
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('step=')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"{served.address}/session/{showcase.ID}?")
    page.goto(copied)
    page.wait_for_selector(".drawer .detail")
    assert "uv run pytest -q --color=yes" in page.inner_text(".drawer h2")


def test_every_key_is_listed(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.keyboard.press("?")
    page.wait_for_selector("#keys[open]")
    listed = {cap.inner_text() for cap in page.query_selector_all("#keys dt kbd")}
    assert {"?", "j", "k", "J", "K", "e", "c", "b", "a", "f", "/", "Ctrl-K", "1", "2", "3", "4", "y"} <= listed


# Without JavaScript


def test_without_script_everything_can_be_read(served: Served, tabs: Tabs) -> None:
    tab = tabs(script=False)
    page = visit(tab, served, f"/session/{showcase.ID}")
    seen = page.inner_text("body")
    told = {name for name, words in VISIBLE.items() if words not in seen}
    assert told <= {"an agent of an agent"}
    page.locator(".row a.line", has_text="uv run pytest -q --color=yes").click()
    page.wait_for_load_state()
    assert "1 failed, 11 passed" in page.inner_text("body")


def open_row(page: Page, words: str) -> None:
    """Open the drawer on the first step that says this."""
    page.locator(".row > .line", has_text=words).first.click()
    page.wait_for_selector(".drawer .detail")


def current(page: Page) -> str:
    """Return the key of the step one is at."""
    page.wait_for_selector(".rows .current")
    return page.get_attribute(".rows .current", "data-key") or ""


def is_in_view(page: Page, selector: str) -> bool:
    return bool(
        page.eval_on_selector(
            selector,
            "one => { const box = one.getBoundingClientRect(); return box.top < innerHeight && box.bottom > 0 }",
        )
    )
