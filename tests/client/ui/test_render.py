from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import examples
from unspool.client import events
from unspool.client.events import CallEnded
from unspool.client.protocols import PermissionRequest
from unspool.client.ui.render import ChatRenderer, RenderOptions
from unspool.client.ui.render_events import EventRenderer
from unspool.display.safe import clean
from unspool.permissions import RuleDecision

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
marks = st.sampled_from(
    ["\x1b]0;t\x07", "\x1b[2J", "\x9b31m", "\x1b", "\u202e", "\u200b", "\r", "\t", "&#27;", "&#x202e;", "&#155;",
     "&#13;", "[a](http://x.y)", "<b>", "[red]", ":smile:", "`", "```\n", "# ", "- ", "| a |\n|---|\n", "**", "\n",
     "\n\n", " "]
)  # fmt: skip
evil = st.lists(marks | st.text(max_size=5), max_size=12).map("".join)


def ended(name: str, content: str = "", result: Any = None, *, error: bool = False, **input: Any) -> CallEnded:
    return CallEnded(id="t", name=name, input=input, content=content, result=result, is_error=error, uuid="u")


def is_safe(drawn: str) -> bool:
    plain = COLOUR.sub("", drawn)
    return clean(plain) == plain


@settings(max_examples=examples(60), deadline=None)
@given(evil)
def test_nothing_but_colours_is_obeyed_of_what_is_drawn(text: str) -> None:
    drawing = ChatRenderer(RenderOptions(40), "/work")
    wish = PermissionRequest("t", text, {"command": text, "description": text}, text)
    for drawn in (
        drawing.prompt(text),
        drawing.answer(text, first=True),
        drawing.thinking(text),
        drawing.call(text, text),
        drawing.call_outcome(ended("Bash", text, {"stdout": text, "stderr": text})),
        drawing.call_outcome(ended("Bash", text, f"Error: {text}", error=True)),
        drawing.call_outcome(
            ended("Write", "ok", {"type": "create", "filePath": text, "content": text, "structuredPatch": []})
        ),
        drawing.permission_request(wish, RuleDecision(behaviour="ask", why=text)),
        drawing.error(text, text),
        drawing.notice(text),
        drawing.todos([{"content": text, "status": "pending"}, text, None]),
        drawing.plan(text),
    ):
        assert is_safe(drawn), repr(drawn)


@settings(max_examples=examples(40), deadline=None)
@given(evil)
def test_without_a_terminal_there_is_no_escape_sequence_at_all(text: str) -> None:
    drawing = ChatRenderer(RenderOptions(40, plain=True))
    assert "\x1b" not in drawing.answer(text, first=True) + drawing.prompt(text) + drawing.error(text)


@settings(max_examples=examples(40), deadline=None)
@given(st.text(st.sampled_from("word \n-`#*1."), max_size=80), st.integers(1, 9))
def test_what_grows_is_shown_once_and_whole(text: str, size: int) -> None:
    shown: list[str] = []
    telling = EventRenderer(shown.append, lambda: ChatRenderer(RenderOptions(200, plain=True)))
    telling.handle(events.StepBegan(number=1, input_tokens=1))
    for start in range(0, len(text), size):
        telling.handle(events.TextGrown(text=text[start : start + size]))
    telling.handle(events.BlockDone(block={"type": "text", "text": text}, uuid="u", message={}))
    assert telling.tail == ""
    words = re.findall("word", text)
    assert len(re.findall("word", "".join(shown))) == len(words)


def test_a_change_is_drawn_as_one() -> None:
    hunk = {"oldStart": 3, "oldLines": 2, "newStart": 3, "newLines": 2, "lines": [" same", "-old", "+new"]}
    result = {"filePath": "/work/a.py", "oldString": "old", "newString": "new", "structuredPatch": [hunk]}
    drawn = ChatRenderer(RenderOptions(60, plain=True)).call_outcome(ended("Edit", "ok", result))
    assert drawn == "  ⎿  +1 −1\n     @@ -3,2 +3,2 @@\n      same\n     -old\n     +new\n"


def test_of_long_output_some_is_shown_and_of_a_failure_the_end() -> None:
    drawing = ChatRenderer(RenderOptions(60, plain=True))
    text = "\n".join(f"line {number}" for number in range(20))
    result = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
    done = drawing.call_outcome(ended("Bash", text, result))
    assert "line 5" in done
    assert "… 14 more lines" in done
    failed = drawing.call_outcome(ended("Bash", f"Exit code 1\n{text}", "Error", error=True))
    assert "line 19" in failed
    assert "line 2\n" not in failed


@pytest.mark.parametrize("width", [5, 20, 33, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    drawing = ChatRenderer(RenderOptions(width, plain=True))
    long = "a rather long sentence with aVeryLongWordThatDoesNotFitAnywhereAtAll in it"
    wish = PermissionRequest("t", "Bash", {"command": long}, long)
    for drawn in (
        drawing.answer(long, first=True), drawing.prompt(long), drawing.call("Bash", long),
        drawing.permission_request(wish, RuleDecision(behaviour="ask", why=long)), drawing.notice(long),
    ):  # fmt: skip
        assert max(map(len, drawn.splitlines())) <= max(width, 20)


def test_all_of_what_is_asked_about_is_shown() -> None:
    command = "echo " + "x" * 500 + "\nrm -rf everything"
    drawn = ChatRenderer(RenderOptions(40, plain=True)).permission_request(
        PermissionRequest("t", "Bash", {"command": command}, "echo"), RuleDecision(behaviour="ask", why="no rule")
    )
    assert "x" * 500 + "rm-rfeverything" in "".join(drawn.split())


def test_what_a_retried_answer_repeats_is_shown_once() -> None:
    shown: list[str] = []
    renderer = EventRenderer(shown.append, lambda: ChatRenderer(RenderOptions(200, plain=True)))
    done = events.ResponseDone(id="m", model="m", content=(), stop_reason=None, usage={}, cost_micros=0)
    for event in (
        events.StepBegan(number=1, input_tokens=1),
        events.TextGrown(text="A first paragraph.\n\nA second that bre"),
        done,
        events.RetryScheduled(seconds=0, attempt=1, reason="cut"),
        events.StepBegan(number=2, input_tokens=1),
        events.TextGrown(text="A first paragraph.\n\nA second that breaks no more.\n\nA third."),
        events.BlockDone(block={"type": "text", "text": "…"}, uuid="u", message={}),
    ):
        renderer.handle(event)
    printed = "".join(shown)
    assert [printed.count(words) for words in ("A first", "A second", "that breaks", "A third")] == [1, 1, 1, 1]


def test_a_paragraph_that_differs_in_the_retried_answer_is_withdrawn() -> None:
    shown: list[str] = []

    def withdraw(texts: Sequence[str]) -> bool:
        for text in texts:
            shown.remove(text)
        return True

    renderer = EventRenderer(shown.append, lambda: ChatRenderer(RenderOptions(200, plain=True)), withdraw=withdraw)
    for event in (
        events.StepBegan(number=1, input_tokens=1),
        events.TextGrown(text="Same.\n\nWrong one.\n\nWrong two.\n\nbro"),
        events.RetryScheduled(seconds=0, attempt=1, reason="cut"),
        events.StepBegan(number=2, input_tokens=1),
        events.TextGrown(text="Same.\n\nRight.\n\nbro"),
        events.RetryScheduled(seconds=0, attempt=2, reason="cut"),
        events.StepBegan(number=3, input_tokens=1),
        events.TextGrown(text="Same.\n\n"),
        events.BlockDone(block={"type": "text", "text": "…"}, uuid="u", message={}),
        events.ResponseDone(id="m", model="m", content=(), stop_reason=None, usage={}, cost_micros=0),
    ):
        renderer.handle(event)
    printed = "".join(shown)
    assert [printed.count(words) for words in ("Same", "Wrong", "Right", "bro", "retrying")] == [1, 0, 0, 0, 2]


def test_what_cannot_be_withdrawn_is_called_void() -> None:
    shown: list[str] = []
    renderer = EventRenderer(shown.append, lambda: ChatRenderer(RenderOptions(200, plain=True)))
    for event in (
        events.StepBegan(number=1, input_tokens=1),
        events.TextGrown(text="Wrong one.\n\nWrong two.\n\nbro"),
        events.RetryScheduled(seconds=0, attempt=1, reason="cut"),
        events.TextGrown(text="Right.\n\nMore.\n\n"),
    ):
        renderer.handle(event)
    assert "void from “Wrong one.” on" in "".join(shown)
