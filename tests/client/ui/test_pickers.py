from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.client.conftest import Chat, Place
from tests.client.ui.rig import Open, unspool
from tests.pseudo_terminal import ENTER, ESCAPE
from unspool.client.ui.choice import ChoiceOption, ChoicePrompt, ChoiceResult

FRUITS = [ChoiceOption("apple", "red"), ChoiceOption("banana", "yellow"), ChoiceOption("cherry", "red")]


def picker() -> ChoicePrompt:
    return ChoicePrompt("Which?", [*FRUITS], filters=True)


def typed(prompt: ChoicePrompt, text: str) -> ChoicePrompt:
    for key in text:
        assert prompt.press("space" if key == " " else key) is None
    return prompt


def test_typing_narrows_a_list_and_enter_takes_what_is_left() -> None:
    assert typed(picker(), "BAN").press("enter") == ChoiceResult((1,))
    prompt = typed(picker(), "red err")
    assert prompt.window() == [2]
    prompt.press("backspace")
    typed(prompt, "q")
    assert prompt.window() == []
    assert prompt.press("enter") is None
    for _ in "red erq":
        prompt.press("backspace")
    assert prompt.window() == [0, 1, 2]


def test_numbers_are_typed_too_and_choose_nothing() -> None:
    prompt = ChoicePrompt("?", [ChoiceOption("one"), ChoiceOption("2 two")], filters=True)
    assert typed(prompt, "2").press("enter") == ChoiceResult((1,))


def test_what_a_search_finds_is_added_unless_more_was_typed() -> None:
    prompt = typed(ChoicePrompt("?", [ChoiceOption("apple", "red", id="a")], filters=True), "pie")
    assert prompt.window() == []
    prompt.add_found("pi", [ChoiceOption("apple", id="a")])
    assert prompt.window() == []
    prompt.add_found("pie", [ChoiceOption("apple", "a pie", id="a"), ChoiceOption("plum", "b pie", id="b")])
    assert [prompt.detail(index) for index in prompt.window()] == ["a pie", "b pie"]
    prompt.press("backspace")
    assert prompt.detail(0) == "red"


@given(st.lists(st.sampled_from(["up", "down", "backspace", "a", "e", "space", "enter"]), max_size=40))
def test_the_cursor_is_always_on_an_option_that_is_shown(keys: list[str]) -> None:
    prompt = picker()
    for key in keys:
        chosen = prompt.press(key)
        assert chosen is None or chosen.first in prompt.visible
        assert prompt.cursor in prompt.window() if prompt.visible else prompt.window() == []


def test_the_model_is_picked_by_typing(open_chat: Open) -> None:
    with open_chat(["x"]) as terminal:
        terminal.say("/model")
        terminal.ask_key("hai", "Use which model?")
        terminal.see("/ hai", "❯ haiku")
        assert "sonnet" not in terminal.seen
        terminal.press(ENTER)
        terminal.see("resumed with claude-haiku-5-5")


def test_sessions_are_found_by_their_text_in_the_index(open_chat: Open, chat: Chat, place: Place) -> None:
    assert chat("-p", "first question", script=["The walrus was Paul."]).code == 0
    assert chat("-p", "second question", script=["Nothing to see."]).code == 0
    with open_chat(["x"]) as terminal:
        unspool(place, "search", "walrus")  # brings the store and its index up to date
        terminal.say("/resume")
        terminal.see("first question", "second question")
        terminal.ask_key("walr", "Resume which session?")
        terminal.see("walrus was Paul", "1 of 2")
        assert "second question" not in terminal.seen
        terminal.press(ENTER)
        terminal.see("● The walrus was Paul.")


def test_titles_are_found_without_a_store(open_chat: Open, chat: Chat) -> None:
    assert chat("-p", "first question", script=["One."]).code == 0
    assert chat("-p", "second question", script=["Two."]).code == 0
    with open_chat(["x"]) as terminal:
        terminal.say("/resume")
        terminal.ask_key("nothing like it", "Resume which session?")
        terminal.see("nothing matches")
        terminal.press("\x7f" * 20 + "sec")
        terminal.see("❯ second question")
        terminal.answer(ESCAPE, "Resume which session?")
