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


# Closing, going back, and staying where one is


def test_the_drawer_is_closed_by_its_button_and_the_address_forgets_the_step(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    open_row(page, "uv run pytest -q --color=yes")
    assert "step=" in page.url
    page.click(".drawer .close")
    page.wait_for_selector(".drawer", state="hidden")
    page.wait_for_function("() => !location.search.includes('step=')")


def test_back_closes_the_drawer_and_stays_on_the_page(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    visit(tab, served, "/sessions")
    page = visit_session(tab, served, showcase.ID)
    open_row(page, "uv run pytest -q --color=yes")
    open_row(page, "Edit")
    page.go_back()
    page.wait_for_selector(".drawer", state="hidden")
    assert page.url == f"{served.address}/session/{showcase.ID}"
    page.go_forward()
    page.wait_for_selector(".drawer .detail")
    assert "step=" in page.url


def test_esc_takes_the_step_out_of_the_address_and_keeps_the_depth(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    open_row(page, "uv run pytest -q --color=yes")
    page.keyboard.press("4")
    page.keyboard.press("Escape")
    page.wait_for_selector(".drawer", state="hidden")
    page.wait_for_function("() => !location.search.includes('step=') && location.search.includes('depth=all')")


def test_a_linked_step_can_be_closed_without_leaving_the_page(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = visit_session(tab, served, showcase.ID)
    open_row(page, "Edit")
    address = page.url
    page.goto(address)
    page.wait_for_selector(".drawer .detail")
    page.keyboard.press("Escape")
    page.wait_for_selector(".drawer", state="hidden")
    page.wait_for_function("() => !location.search.includes('step=')")


def test_on_a_phone_the_drawer_is_a_sheet_that_is_pulled_down(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(NARROW), served, showcase.ID)
    open_row(page, "uv run pytest -q --color=yes")
    box = page.locator(".drawer-top").bounding_box()
    assert box is not None
    assert page.locator(".drawer .handle").is_visible()
    close = page.locator(".drawer .close").bounding_box()
    assert close is not None
    assert min(close["width"], close["height"]) >= 24
    page.mouse.move(box["x"] + 60, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 160, steps=4)
    page.mouse.up()
    page.wait_for_selector(".drawer", state="hidden")


@BOTH
def test_an_opened_step_does_not_move(size: Size, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(size), served, showcase.ID)
    row = page.locator(".row.call > .line", has_text="Edit").first
    row.evaluate("one => scrollTo(0, one.getBoundingClientRect().top + scrollY - 140)")
    before = top_of(page, ".row.call", "Edit")
    row.click()
    page.wait_for_selector(".drawer .detail")
    assert abs(top_of(page, ".row.call", "Edit") - before) <= 2
    page.keyboard.press("Escape")
    page.wait_for_selector(".drawer", state="hidden")
    assert abs(top_of(page, ".row.call", "Edit") - before) <= 2


@BOTH
@pytest.mark.parametrize("key", ["e", "c"])
def test_a_jump_lands_in_the_upper_third(key: str, size: Size, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(size), served, showcase.ID)
    page.keyboard.press(key)
    page.wait_for_function("() => { const one = document.querySelector('.rows .current'); return one && scrollY > 0 }")
    place = page.eval_on_selector(".rows .current", "one => one.getBoundingClientRect().top / innerHeight")
    assert 0 <= place <= 0.4


@BOTH
def test_the_heading_of_a_long_command_wraps_as_text_does(size: Size, served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(size), served, showcase.ID)
    open_row(page, "uv run pytest -q --color=yes")
    page.eval_on_selector(".drawer h2 .target", "one => { one.textContent = 'python -m long '.repeat(30) }")
    box = page.locator(".drawer h2").bounding_box()
    inner = page.locator(".drawer h2 .target").bounding_box()
    assert box is not None
    assert inner is not None
    assert inner["width"] > box["width"] * 0.8
    assert box["height"] < 160
    assert wide_elements(page) == []


# Finding, printing, reading


def test_esc_closes_what_was_found(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.keyboard.press("/")
    page.keyboard.type("fourth row is off")
    page.wait_for_selector(".found .matches a")
    page.keyboard.press("Escape")
    page.wait_for_selector(".found", state="hidden")
    assert page.input_value(".find input") == ""
    page.keyboard.press("j")
    assert current(page)


def test_kinds_of_rows_can_be_hidden_and_the_address_says_so(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    assert page.locator(".rows .row.call:visible").count()
    page.click(".kinds > summary")
    page.locator(".kinds label", has_text="tool calls").click()
    assert page.locator(".rows .row.call:visible").count() == 0
    assert "hide=call" in page.url
    page.reload()
    page.wait_for_selector(".session[data-ready]")
    assert page.locator(".rows .row.call:visible").count() == 0


def test_paths_in_what_fills_the_context_are_as_they_are(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.click(".filling > summary")
    direction = page.eval_on_selector(
        ".filling td", "one => { one.className = 'path'; return getComputedStyle(one).direction }"
    )
    assert direction == "ltr"
    assert "remainder" in page.inner_text(".filling")


# Copying


@pytest.mark.parametrize(
    ("words", "button", "copied"),
    [
        ("uv run pytest -q --color=yes", ".part:has(pre.command) [data-copy]", "uv run pytest -q --color=yes"),
        ("uv run pytest -q --color=yes", ".part:has(pre.terminal) [data-copy]", "1 failed, 11 passed"),
        ("Edit", ".part:has(.patch) [data-copy]", "\n+"),
        ("Edit", ".actions [data-copy=link]", "step="),
        ("Edit", ".actions [data-text]", f"unspool edit fork {showcase.ID} --at "),
    ],
)
def test_what_is_shown_of_a_step_can_be_copied(
    words: str, button: str, copied: str, served: Served, tabs: Tabs
) -> None:
    tab = tabs()
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit_session(tab, served, showcase.ID)
    open_row(page, words)
    page.locator(f".drawer {button}").first.click()
    page.wait_for_function("words => document.querySelector('.toast')?.textContent.startsWith('copied')", arg=copied)
    assert copied in page.evaluate("navigator.clipboard.readText()")


def test_a_prompt_and_the_resume_command_are_copied_with_two_clicks_each(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit_session(tab, served, showcase.ID)
    page.locator(".row.prompt > .line").first.click()
    page.locator(".drawer .part [data-copy]").first.click()
    page.wait_for_function("() => document.querySelector('.toast')?.textContent.startsWith('copied')")
    assert "The total in this screenshot is wrong" in page.evaluate("navigator.clipboard.readText()")
    page.click(".strip [data-copy='the resume command']")
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('claude --resume')")
    assert page.evaluate("navigator.clipboard.readText()").endswith(f"claude --resume {showcase.ID}")


# The chart


def test_the_chart_has_an_axis_a_legend_and_one_tab_stop(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    axis = page.locator("svg.axis").text_content() or ""
    assert "tokens" in axis
    assert "$0" in axis
    legend = page.inner_text(".context .key")
    assert {"cache read", "cache write", "input", "cost so far"} <= {
        part.strip() for part in legend.split("\n")
    } or all(words in legend for words in ("cache read", "cache write", "input", "cost so far"))
    assert page.locator("svg.chart a[tabindex='0']").count() == 1
    page.locator("svg.chart a[tabindex='0']").focus()
    first = page.inner_text(".context .tip")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("svg.chart a[tabindex='0']").count() == 1
    assert page.inner_text(".context .tip") != first
    page.keyboard.press("Enter")
    page.wait_for_selector(".drawer .detail")


def test_the_chart_can_be_folded_and_the_address_says_so(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    page.click(".context-fold > summary")
    page.wait_for_function("() => location.search.includes('chart=0')")
    page.reload()
    page.wait_for_selector(".session[data-ready]")
    assert not page.locator("svg.chart").is_visible()


def test_what_is_brushed_over_is_added_up(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, showcase.ID)
    box = page.locator("svg.chart").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=8)
    page.mouse.up()
    tip = page.inner_text(".context .tip")
    assert re.search(r"requests \d+ to \d+ · [\d,]+ output tokens · \$\d", tip)
    assert page.locator(".drawer").is_hidden()
    assert page.locator(".context .tip a").count() == 1


# Agents


def test_an_agent_has_a_page_with_its_title_its_answer_and_a_way_back(served: Served, tabs: Tabs) -> None:
    order = showcase_beside.ORDERS[1]
    page = visit_session(tabs(), served, showcase.ID, f"?agent={order.agent}")
    strip = page.inner_text(".strip")
    assert order.about in page.inner_text(".strip h1")
    assert "answer:" in strip
    page.click(".strip .back a")
    page.wait_for_selector(".drawer .detail")
    assert order.about in page.inner_text(".drawer h2")


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


def top_of(page: Page, selector: str, words: str) -> float:
    """Return where the first row that says this stands in the window."""
    row = page.locator(selector, has_text=words).first
    return float(row.evaluate("one => one.getBoundingClientRect().top"))


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
