from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.client.ui.choice import MAX_ROWS, ChoiceOption, ChoicePrompt, ChoiceResult

ANSWERS = [
    ChoiceOption("Yes", key="y"),
    ChoiceOption("Always", key="a"),
    ChoiceOption("No", key="n", text_prompt="what instead?"),
]


def pressed(picking: ChoicePrompt, *keys: str) -> ChoiceResult | None:
    return [picking.press(key) for key in keys][-1]


def test_a_letter_a_number_or_enter_picks() -> None:
    assert pressed(ChoicePrompt("?", ANSWERS), "a") == ChoiceResult((1,))
    assert pressed(ChoicePrompt("?", ANSWERS), "1") == ChoiceResult((0,))
    assert pressed(ChoicePrompt("?", ANSWERS), "down", "enter") == ChoiceResult((1,))
    assert pressed(ChoicePrompt("?", ANSWERS), "up", "up", "enter") == ChoiceResult((1,))


def test_an_answer_that_wants_words_waits_for_them() -> None:
    picking = ChoicePrompt("?", ANSWERS)
    assert picking.press("n") is None
    assert picking.text_option == ANSWERS[2]
    assert picking.enter_text(" do that ") == ChoiceResult((2,), "do that")


def test_several_can_be_marked() -> None:
    picking = ChoicePrompt("?", [ChoiceOption("a"), ChoiceOption("b"), ChoiceOption("c")], multiple=True)
    assert pressed(picking, "space", "down", "down", "space", "enter") == ChoiceResult((0, 2))


@given(st.integers(0, 30), st.lists(st.sampled_from(["up", "down", "x", "space", "9"]), max_size=60))
def test_what_is_looked_at_is_always_shown(count: int, keys: list[str]) -> None:
    picking = ChoicePrompt("?", [ChoiceOption(str(number)) for number in range(count)])
    for key in keys:
        picking.press(key)
        assert len(picking.window()) == min(count, MAX_ROWS)
        assert count == 0 or picking.cursor in picking.window()
