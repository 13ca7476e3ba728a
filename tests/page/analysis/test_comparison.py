"""The alignment of two sessions: nothing is lost, what is alike is beside each other, and no session makes it slow."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.page.analysis import turns_data
from unspool.page.analysis.comparison import ComparedCall, ComparedSession, ComparedTurn, align

WORDS = st.lists(st.sampled_from("abcde"), max_size=30)


def compared(turns: Sequence[Sequence[int]]) -> ComparedSession:
    """A session with turns of calls, each with a number for its target."""
    made = [
        ComparedTurn(
            number, "go on", tuple(ComparedCall("Bash", str(one), False, "0") for one in calls), 1, 0, 0, 0.0, ""
        )
        for number, calls in enumerate(turns, 1)
    ]
    return ComparedSession(
        id="a", branch=None, title="", settings={}, figures={}, turns=tuple(made), files={}, context={},
        first_prompt="", result="", ended="",
    )  # fmt: skip


@given(WORDS, WORDS, st.sampled_from([0, 5, 1500]))
def test_each_item_is_there_once_in_its_order_and_pairs_say_whether_they_are_alike(
    a: list[str], b: list[str], most: int
) -> None:
    pairs = list(align(a, b, [a, b], most))
    assert [pair.a for pair in pairs if pair.a is not None] == a
    assert [pair.b for pair in pairs if pair.b is not None] == b
    assert all(pair.same == (pair.a == pair.b) for pair in pairs)
    if a == b:
        assert all(pair.same for pair in pairs)


def test_a_call_that_only_one_session_made_stands_alone() -> None:
    (turn,) = turns_data(compared([[1, 2, 3, 4]]), compared([[1, 3, 4]]))
    found = [(call["a"] and call["a"]["target"], call["b"] and call["b"]["target"]) for call in turn["calls"]]
    assert found == [("1", "1"), ("2", None), ("3", "3"), ("4", "4")]


@pytest.mark.parametrize(
    "size", [1_000, pytest.param(199, marks=pytest.mark.slow), pytest.param(100_000, marks=pytest.mark.slow)]
)
def test_a_hundred_thousand_steps_are_aligned_in_seconds_whatever_they_repeat(size: int) -> None:
    count = 100_000 // size
    one = compared([[step % 7 for step in range(size)]] * count)
    other = compared([[(step * 3) % 5 for step in range(size)]] * count)
    begun = time.process_time()
    data = turns_data(one, other)
    assert sum(len(turn["calls"]) for turn in data) >= count * size
    assert time.process_time() - begun < 30
