from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.client.ui.choice import ROWS, Option, Picked, Picking

ANSWERS = [Option("Yes", key="y"), Option("Always", key="a"), Option("No", key="n", wants="what instead?")]


def pressed(picking: Picking, *keys: str) -> Picked | None:
    return [picking.press(key) for key in keys][-1]


def test_a_letter_a_number_or_enter_picks() -> None:
    assert pressed(Picking("?", ANSWERS), "a") == Picked((1,))
    assert pressed(Picking("?", ANSWERS), "1") == Picked((0,))
    assert pressed(Picking("?", ANSWERS), "down", "enter") == Picked((1,))
    assert pressed(Picking("?", ANSWERS), "up", "up", "enter") == Picked((1,))


def test_an_answer_that_wants_words_waits_for_them() -> None:
    picking = Picking("?", ANSWERS)
    assert picking.press("n") is None
    assert picking.wanted == ANSWERS[2]
    assert picking.said(" do that ") == Picked((2,), "do that")


def test_several_can_be_marked() -> None:
    picking = Picking("?", [Option("a"), Option("b"), Option("c")], several=True)
    assert pressed(picking, "space", "down", "down", "space", "enter") == Picked((0, 2))


@given(st.integers(0, 30), st.lists(st.sampled_from(["up", "down", "x", "space", "9"]), max_size=60))
def test_what_is_looked_at_is_always_shown(count: int, keys: list[str]) -> None:
    picking = Picking("?", [Option(str(number)) for number in range(count)])
    for key in keys:
        picking.press(key)
        assert len(picking.window()) == min(count, ROWS)
        assert count == 0 or picking.cursor in picking.window()
