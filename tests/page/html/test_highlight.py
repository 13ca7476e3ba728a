"""Colours of code cost a bounded amount of work, whatever the code is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from markupsafe import Markup

from unspool.page.html.highlight import HIGHLIGHT_SECONDS, highlight_lines, limit_highlighting


def counting(per_token: float) -> tuple[Callable[[], float], Callable[[], int]]:
    """Return a clock on which each look takes so long, and how often it was looked at."""
    ticks = count()
    looked = [0]

    def clock() -> float:
        looked[0] = next(ticks)
        return looked[0] * per_token

    return clock, lambda: looked[0]


def test_a_lexer_stops_when_its_time_is_used_up_and_the_rest_is_plain() -> None:
    text = "x = 1\n" * 1_000
    clock, looked = counting(HIGHLIGHT_SECONDS / 50)
    lines = highlight_lines(text, "a.py", clock=clock)
    assert looked() <= 55
    assert Markup("\n").join(lines).striptags().split() == text.split()
    assert "<span" in lines[0]
    assert "<span" not in lines[-1]


def test_all_texts_of_a_request_share_one_budget() -> None:
    clock, looked = counting(HIGHLIGHT_SECONDS / 50)
    with limit_highlighting():
        for _ in range(20):
            highlight_lines("x = 1\n" * 1_000, "a.py", clock=clock)
    assert looked() < 50 + 20 * 4


def test_the_next_request_has_its_whole_budget_again() -> None:
    clock, _ = counting(HIGHLIGHT_SECONDS / 50)
    for _ in range(2):
        with limit_highlighting():
            assert "<span" in highlight_lines("x = 1\n" * 1_000, "a.py", clock=clock)[0]
