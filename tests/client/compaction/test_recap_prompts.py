"""What a person asked for, kept word for word."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.client.compaction.recap_prompts import Prompt, fitted, gathered, parsed, typed, written
from unspool.client.compaction.truncate import shortened
from unspool.edit.compress import BEGINNING

any_words = st.text(st.sampled_from("ab<>/.: \n123-,prompts"), min_size=1, max_size=60) | st.text(
    min_size=1, max_size=40
)
spoken = any_words.map(str.strip).filter(bool)
texts = st.lists(spoken, min_size=1, max_size=40)


def _section(prompts: list[Prompt], after: str = "") -> str:
    return f"{BEGINNING}\n\nSome words:\n{written(prompts)}\n\n{after}"


@given(texts, spoken)
def test_what_is_written_is_read_back(said: list[str], after: str) -> None:
    prompts = [Prompt((number,), text) for number, text in enumerate(said, 1)]
    assert parsed(_section(prompts, after)) == prompts


@given(texts, st.integers(0, 1500))
@settings(deadline=None)
def test_prompts_that_do_not_fit_are_shortened_and_none_is_forgotten(said: list[str], room: int) -> None:
    prompts = [Prompt((number,), text) for number, text in enumerate(said, 1)]
    kept = fitted(prompts, lambda some: len(written(some)) <= room)
    assert sorted(number for prompt in kept for number in prompt.numbers) == [*range(1, len(said) + 1)]
    assert parsed(_section(kept)) == kept
    if len(written(prompts)) <= room:
        assert kept == prompts


def test_the_longest_give_first_and_the_first_ten_last() -> None:
    said = (
        [f"Fact {number} is blue-{number}." for number in range(1, 11)] + ["x" * 500, "Do this. " * 9] * 20 + ["Now?"]
    )
    prompts = [Prompt((number,), f"{text} ({number})") for number, text in enumerate(said, 1)]
    kept = fitted(prompts, lambda some: len(written(some)) <= 4000)
    assert kept[:10] == prompts[:10]
    assert kept[-1] == prompts[-1]
    assert len(written(kept)) <= 4000
    assert all(prompt.text.startswith(("x" * 10, "Do this.")) for prompt in kept[10:-1])


def test_where_there_is_no_room_for_the_middle_their_numbers_are_named() -> None:
    prompts = [Prompt((number,), f"Prompt {number}: {'y' * number}") for number in range(1, 201)]
    kept = fitted(prompts, lambda some: len(written(some)) <= 2000)
    assert kept[:10] == prompts[:10]
    left_out = next(prompt for prompt in kept if prompt.text.startswith("[left out"))
    assert left_out.numbers == tuple(range(11, 11 + len(left_out.numbers)))
    assert "\n11-" in written(kept)
    again = fitted([*kept, Prompt((201,), "One more.")], lambda some: len(written(some)) <= 2000)
    assert set(left_out.numbers) <= set(next(p.numbers for p in again if p.text.startswith("[left out")))


def test_prompts_that_say_the_same_share_a_place_only_for_want_of_room() -> None:
    prompts = [Prompt((number,), "Go on, please.") for number in range(1, 51)]
    assert fitted(prompts, lambda some: True) == prompts
    assert fitted(prompts, lambda some: len(written(some)) < 100) == [Prompt(tuple(range(1, 51)), "Go on, please.")]


def test_what_the_program_says_is_no_prompt_and_a_command_is_one() -> None:
    assert typed("<system-reminder>\nBe nice.\n</system-reminder>") == ""
    assert typed("[Request interrupted by user]") == ""
    assert typed("<task-notification>done</task-notification>") == ""
    assert typed("/etc/hosts is wrong") == "/etc/hosts is wrong"
    assert (
        typed(
            "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>all</command-args>"
        )
        == "/review all"
    )


def test_prompts_go_from_one_recap_to_the_next() -> None:
    first = gathered(["Fix it.", "[Request interrupted by user]", "No, the other one."])
    assert first == [Prompt((1,), "Fix it."), Prompt((2,), "No, the other one.")]
    assert gathered([_section(first), "And now this."]) == [*first, Prompt((3,), "And now this.")]


@given(st.text(max_size=400), st.integers(0, 300), st.integers(0, 300))
def test_a_text_is_shortened_to_its_beginning_and_end(text: str, one: int, two: int) -> None:
    short = shortened(text, one)
    assert len(short) <= max(len(text), 0)
    assert len(short) <= max(one, 48) or short == text
    again = shortened(short, two)
    assert len(again) <= len(short)
    if "characters left out" not in text and short != text:
        head, _, tail = short.partition("\n[... ")
        assert text.startswith(head)
        assert text.endswith(tail.partition(" ...]\n")[2])
        assert int(tail.split()[0].replace(",", "")) == len(text) - len(head) - len(tail.partition(" ...]\n")[2])
