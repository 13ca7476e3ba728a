"""A session of more turns than a page loads at once: every part of it can be reached, read and printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.visiting import visit_session, visited
from tests.browser.watching import Tabs
from tests.serving import Served
from unspool.testing.build import Step, assistant, session, tool_result, tool_use, user

ID = "10000000-0000-4000-8000-00000000000a"
TURNS = 1_100
AGENT = "a7f0000000000001"
PROMPT = "Look at the harbour lights"
REPORT = "The lights are on."
MODEL = "claude-sonnet-4-5-20250929"
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 210_000, "cache_creation_input_tokens": 10, "output_tokens": 1}


def turns() -> Iterator[Step]:
    for number in range(1, TURNS + 1):
        yield user(f"Question {number}" + " of many" * (3_000 if number == 3 else 0))
        if number == 500:
            yield assistant(
                tool_use("Agent", id="look", description="Check lights", prompt=PROMPT, subagent_type="Explore")
            )
            content = [{"type": "text", "text": REPORT}]
            yield tool_result(
                REPORT, id="look", structured={"status": "completed", "agentId": AGENT, "prompt": PROMPT,
                                               "content": content},
            )  # fmt: skip
        if number in (12, TURNS - 3):
            yield assistant(tool_use("Bash", id=f"failed{number}", command="row"))
            yield tool_result("Exit code 1", id=f"failed{number}", error=True)
        words = f"Answer {number}. " * (60 if number == 2 else 1)
        unfinished: dict[str, Any] = {"id": "msg_2", "role": "assistant", "model": MODEL, "usage": USAGE}
        unfinished |= {"stop_reason": None, "content": [{"type": "text", "text": words}]}
        message: dict[str, Any] = {"message": unfinished}
        yield assistant(words, model=MODEL, usage=USAGE, **(message if number == 2 else {}))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("long")
    made = session(*turns(), id=ID, cwd="/home/me/harbour").save(place / "claude")
    folder = made.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    lines = [user(PROMPT), assistant(tool_use("Bash", id="b", command="ls")), tool_result("ok", id="b")]
    (folder / f"agent-{AGENT}.jsonl").write_bytes(session(*lines, assistant(REPORT), agent=AGENT, id=ID).data)
    with visited(place / "claude", place / "unspool") as running:
        yield running


def test_a_click_on_an_agent_leads_to_its_steps_where_they_are_not_loaded(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, ID)
    assert page.locator(f'.nested[data-agent="{AGENT}"]').count() == 0
    page.keyboard.press("a")
    page.wait_for_selector(".agents tbody tr")
    row = page.inner_text(".agents tbody tr")
    assert "Explore" in row
    assert "Check lights" in row
    assert REPORT in row
    page.click(f'.agents a[data-agent="{AGENT}"]')
    page.wait_for_selector(f'.nested[data-agent="{AGENT}"][open] .inner .row')
    assert REPORT in page.inner_text(f'.nested[data-agent="{AGENT}"]')
    place = page.eval_on_selector(f'.nested[data-agent="{AGENT}"]', "one => one.getBoundingClientRect().top")
    assert 0 <= place <= 500


def test_a_number_of_four_figures_does_not_run_into_its_title(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, ID, f"?turn={TURNS}")
    page.wait_for_selector(f'.outline li[data-turn="{TURNS}"]')
    overlap = page.evaluate(
        """() => [...document.querySelectorAll(".outline li[data-turn] a")].filter((one) => {
             const number = document.createRange();
             number.selectNodeContents(one.querySelector("b"));
             return number.getBoundingClientRect().right > one.querySelector(".words").getBoundingClientRect().left;
           }).length"""
    )
    assert overlap == 0
    page.wait_for_selector(f'.outline li.failed[data-turn="{TURNS - 3}"]')
    # With the dot of a turn that failed, too.
    heights = page.eval_on_selector_all(".outline li[data-turn] b", "all => all.map(one => one.offsetHeight)")
    assert max(heights) <= 22


def test_all_turns_are_there_to_be_printed(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, ID)
    assert page.locator(".block[data-empty]").count() > 2
    count = "document.querySelectorAll('.row.prompt').length"
    page.evaluate(f"() => {{ window.printed = 0; window.print = () => {{ window.printed = {count} }} }}")
    page.keyboard.press("P")
    page.wait_for_function("() => window.printed > 0", timeout=120_000)
    assert page.evaluate("window.printed") == TURNS


@pytest.mark.parametrize(("key", "words"), [("c", "no more compactions"), ("b", "no more abandoned branches")])
def test_a_search_that_finds_nothing_says_so_and_leaves_the_page_as_it_was(
    key: str, words: str, served: Served, tabs: Tabs
) -> None:
    page = visit_session(tabs(), served, ID)
    empty = page.locator(".block[data-empty]").count()
    assert empty > 2
    page.keyboard.press(key)
    page.locator(".toast", has_text=words).wait_for()
    assert page.locator(".block[data-empty]").count() == empty
    assert page.locator(".rows .current").count() == 0


def test_an_error_far_away_is_found_and_what_is_between_is_not_loaded(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, ID)
    page.keyboard.press("e")
    page.wait_for_selector(".row.failed.current")
    page.keyboard.press("e")
    page.wait_for_selector(f"[data-turn='{TURNS - 3}'] .row.failed.current")
    assert page.locator(".block[data-empty]").count() > 2
    page.keyboard.press("e")
    page.locator(".toast", has_text="no more errors").wait_for()
    page.keyboard.press("E")
    page.wait_for_selector("[data-turn='12'] .row.failed.current")
    page.keyboard.press("E")
    page.locator(".toast", has_text="no errors before").wait_for()


def test_a_prompt_of_any_length_can_be_read(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, ID)
    prompt = page.locator(".row.prompt .said", has_text="Question 3 of many")
    assert prompt.evaluate("one => one.scrollHeight <= one.clientHeight + 1")
    assert len(prompt.inner_text()) > 20_000


def test_partial_counts_and_the_higher_price_are_said(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, ID)
    strip = page.inner_text(".strip")
    assert "1 response has only a partial count of its output; the estimated total is" in strip
    assert f"{TURNS:,} requests above 200,000 tokens at the higher price: $" in strip
    assert "peak context 210k" in strip
    assert "≥ 1 tok" in page.inner_text("#t-2")


def test_a_jump_by_the_outline_lands_in_the_upper_third(served: Served, tabs: Tabs) -> None:
    page = visit_session(tabs(), served, ID)
    page.click('.outline li[data-turn="60"] a')
    page.wait_for_function("() => document.querySelector('#t-60 .row.current')")
    place = page.eval_on_selector("#t-60", "one => one.getBoundingClientRect().top / innerHeight")
    assert 0 <= place <= 0.34
