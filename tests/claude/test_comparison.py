"""The comparison itself: what it takes for a difference, and what it does not. Needs no program."""

from __future__ import annotations

import pytest

from tests.claude.server import Json, says
from unspool.testing.comparison import difference

PROMPT = "And now?"
REMINDER = says("<system-reminder>\nIt is late.\n</system-reminder>\n")


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def system(*texts: str) -> Json:
    return {"role": "system", "content": [says(text) for text in texts]}


HELLO = [user(says("Hello.")), assistant(says("Hello to you."))]


def test_the_same_is_no_difference() -> None:
    assert difference([*HELLO, user(says(PROMPT))], HELLO, PROMPT) is None


def test_what_carries_no_content_does_not_count() -> None:
    cached = user({**says("Hello."), "cache_control": {"type": "ephemeral"}})
    plain = {"role": "assistant", "content": "Hello to you."}
    assert difference([cached, system(), plain, user(says(PROMPT))], HELLO, PROMPT) is None


def test_reminders_of_the_new_turn_do_not_count() -> None:
    assert difference([*HELLO, user(REMINDER, says(PROMPT)), system("Be brief.")], HELLO, PROMPT) is None


def test_what_the_user_said_last_is_in_the_message_of_the_prompt() -> None:
    sent = [user(REMINDER, says("Hello.\n"), says(PROMPT))]
    assert difference(sent, [user(says("Hello."))], PROMPT) is None
    assert difference(sent, [], PROMPT)
    assert difference(sent, [user(says("Hello!"))], PROMPT)


def test_what_the_system_said_last_begins_its_message_after_the_prompt() -> None:
    sent = [user(says("Hello.\n"), says(PROMPT)), system("Be brief.\n\nBe kind.")]
    assert difference(sent, [user(says("Hello.")), system("Be brief.")], PROMPT) is None
    assert difference(sent, [user(says("Hello.")), system("Be kind.")], PROMPT)
    assert difference(sent[:1], [user(says("Hello.")), system("Be brief.")], PROMPT)


@pytest.mark.parametrize(
    "ours",
    [
        [],
        HELLO[:1],
        [*HELLO, *HELLO],
        [assistant(says("Hello.")), HELLO[1]],
        [user(says("Hello.\n")), HELLO[1]],
        [user(says("Hello."), REMINDER), HELLO[1]],
        [HELLO[0], system("Be brief."), HELLO[1]],
        [HELLO[0], assistant(says("Hello"), says(" to you."))],
    ],
)
def test_anything_else_is_a_difference(ours: list[Json]) -> None:
    assert difference([*HELLO, user(says(PROMPT))], ours, PROMPT)


def test_a_difference_is_shown_where_it_begins() -> None:
    words = difference([*HELLO, user(says(PROMPT))], [HELLO[0], assistant(says("Hello to me."))], PROMPT)
    assert words is not None
    assert words.startswith("message 1, character ")
    assert "Hello to you." in words
    assert "Hello to me." in words
