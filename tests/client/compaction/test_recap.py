"""What a person asked for, kept word for word."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.client.compaction.recap import (
    NumberedPrompt,
    collect_prompts,
    extract_typed_text,
    fit_prompts,
    format_prompts,
    parse_prompts,
)
from unspool.client.compaction.truncate import shorten_text
from unspool.edit.planning.compress import SUMMARY_BEGINNING

any_words = st.text(st.sampled_from("ab<>/.: \n123-,prompts"), min_size=1, max_size=60) | st.text(
    min_size=1, max_size=40
)
spoken = any_words.map(str.strip).filter(bool)
texts = st.lists(spoken, min_size=1, max_size=40)


def _section(prompts: list[NumberedPrompt], after: str = "") -> str:
    return f"{SUMMARY_BEGINNING}\n\nSome words:\n{format_prompts(prompts)}\n\n{after}"


@given(texts, spoken)
def test_what_is_written_is_read_back(said: list[str], after: str) -> None:
    prompts = [NumberedPrompt((number,), text) for number, text in enumerate(said, 1)]
    assert parse_prompts(_section(prompts, after)) == prompts


@given(texts, st.integers(0, 1500))
@settings(deadline=None)
def test_prompts_that_do_not_fit_are_shortened_and_none_is_forgotten(said: list[str], room: int) -> None:
    prompts = [NumberedPrompt((number,), text) for number, text in enumerate(said, 1)]
    kept = fit_prompts(prompts, lambda some: len(format_prompts(some)) <= room)
    assert sorted(number for prompt in kept for number in prompt.numbers) == [*range(1, len(said) + 1)]
    assert parse_prompts(_section(kept)) == kept
    if len(format_prompts(prompts)) <= room:
        assert kept == prompts


def test_the_longest_give_first_and_the_first_ten_last() -> None:
    said = (
        [f"Fact {number} is blue-{number}." for number in range(1, 11)] + ["x" * 500, "Do this. " * 9] * 20 + ["Now?"]
    )
    prompts = [NumberedPrompt((number,), f"{text} ({number})") for number, text in enumerate(said, 1)]
    kept = fit_prompts(prompts, lambda some: len(format_prompts(some)) <= 4000)
    assert kept[:10] == prompts[:10]
    assert kept[-1] == prompts[-1]
    assert len(format_prompts(kept)) <= 4000
    assert all(prompt.text.startswith(("x" * 10, "Do this.")) for prompt in kept[10:-1])


def test_where_there_is_no_room_for_the_middle_their_numbers_are_named() -> None:
    prompts = [NumberedPrompt((number,), f"Prompt {number}: {'y' * number}") for number in range(1, 201)]
    kept = fit_prompts(prompts, lambda some: len(format_prompts(some)) <= 2000)
    assert kept[:10] == prompts[:10]
    left_out = next(prompt for prompt in kept if prompt.text.startswith("[left out"))
    assert left_out.numbers == tuple(range(11, 11 + len(left_out.numbers)))
    assert "\n11-" in format_prompts(kept)
    again = fit_prompts([*kept, NumberedPrompt((201,), "One more.")], lambda some: len(format_prompts(some)) <= 2000)
    assert set(left_out.numbers) <= set(next(p.numbers for p in again if p.text.startswith("[left out")))


def test_prompts_that_say_the_same_share_a_place_only_for_want_of_room() -> None:
    prompts = [NumberedPrompt((number,), "Go on, please.") for number in range(1, 51)]
    assert fit_prompts(prompts, lambda some: True) == prompts
    assert fit_prompts(prompts, lambda some: len(format_prompts(some)) < 100) == [
        NumberedPrompt(tuple(range(1, 51)), "Go on, please.")
    ]


def test_what_the_program_says_is_no_prompt_and_a_command_is_one() -> None:
    assert extract_typed_text("<system-reminder>\nBe nice.\n</system-reminder>") == ""
    assert extract_typed_text("[Request interrupted by user]") == ""
    assert extract_typed_text("<task-notification>done</task-notification>") == ""
    assert extract_typed_text("/etc/hosts is wrong") == "/etc/hosts is wrong"
    assert (
        extract_typed_text(
            "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>all</command-args>"
        )
        == "/review all"
    )


def test_prompts_go_from_one_recap_to_the_next() -> None:
    first = collect_prompts(["Fix it.", "[Request interrupted by user]", "No, the other one."])
    assert first == [NumberedPrompt((1,), "Fix it."), NumberedPrompt((2,), "No, the other one.")]
    assert collect_prompts([_section(first), "And now this."]) == [*first, NumberedPrompt((3,), "And now this.")]


@given(st.text(max_size=400), st.integers(0, 300), st.integers(0, 300))
def test_a_text_is_shortened_to_its_beginning_and_end(text: str, one: int, two: int) -> None:
    short = shorten_text(text, one)
    assert len(short) <= max(len(text), 0)
    assert len(short) <= max(one, 48) or short == text
    again = shorten_text(short, two)
    assert len(again) <= len(short)
    if "characters left out" not in text and short != text:
        head, _, tail = short.partition("\n[... ")
        assert text.startswith(head)
        assert text.endswith(tail.partition(" ...]\n")[2])
        assert int(tail.split()[0].replace(",", "")) == len(text) - len(head) - len(tail.partition(" ...]\n")[2])
