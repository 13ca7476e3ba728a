"""What a step shows when it is opened, tool by tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.page.scene import EDIT, HUNK, QUESTION, READ, viewed
from tests.strategies import json_values
from unspool.format.tools.parse import INPUT_TYPES
from unspool.graph.tool_calls import find_tool_calls
from unspool.page import detail_parts
from unspool.page.detail import read_detail
from unspool.page.detail_parts import (
    ChecklistPart,
    CodePart,
    DataPart,
    DetailPart,
    ImagesPart,
    PatchLine,
    PatchPart,
    QuestionPart,
    TextPart,
)
from unspool.testing.build import assistant as answer
from unspool.testing.build import image, session, tool_result, tool_use, user


def shown(
    name: str, given: dict[str, Any], content: Any = "ok", structured: Any = None, **more: Any
) -> list[DetailPart]:
    lines = [user("go"), answer(tool_use(name, id="x", **given)), tool_result(content, structured=structured, **more)]
    (call,) = find_tool_calls(session(*lines).entries)
    return list(detail_parts.call_parts(call))


def test_an_edit_is_a_patch_with_true_line_numbers() -> None:
    (patch,) = shown("Edit", {"file_path": "/a.py", "old_string": "x = 1", "new_string": "x"}, structured=EDIT)
    assert isinstance(patch, PatchPart)
    assert (patch.path, patch.added, patch.removed, patch.is_modified, patch.is_new) == ("/a.py", 2, 1, True, False)
    assert [(line.sign, line.old, line.new, line.text) for line in patch.lines] == [
        (" ", 10, 10, "import os"),
        ("-", 11, None, "x = 1"),
        ("+", None, 11, "x = 2"),
        ("+", None, 12, "y = 3"),
        (" ", 12, 13, "# end"),
    ]


def test_hunks_are_numbered_each_by_itself() -> None:
    second = {**HUNK, "oldStart": 40, "newStart": 41, "lines": ["-a", "\\ No newline at end of file"]}
    (patch,) = shown(
        "MultiEdit",
        {"file_path": "/a", "edits": []},
        structured={**EDIT, "edits": [], "structuredPatch": [HUNK, second]},
    )
    assert isinstance(patch, PatchPart)
    assert patch.lines[5:] == (
        PatchLine("@", None, None, ""),
        PatchLine("-", 40, None, "a"),
        PatchLine("\\", None, None, " No newline at end of file"),
    )


def test_a_new_file_is_all_additions() -> None:
    result = {"type": "create", "filePath": "/n", "content": "a\nb\n", "structuredPatch": []}
    (patch,) = shown("Write", {"file_path": "/n", "content": "a\nb\n"}, structured=result)
    assert isinstance(patch, PatchPart)
    assert patch.is_new
    assert [(line.new, line.text) for line in patch.lines] == [(1, "a"), (2, "b")]


def test_without_the_tools_own_patch_there_are_no_line_numbers() -> None:
    (patch,) = shown("Edit", {"file_path": "/a", "old_string": "x", "new_string": "y"})
    assert isinstance(patch, PatchPart)
    assert patch.is_asked
    assert [(line.sign, line.old, line.new) for line in patch.lines] == [("-", None, None), ("+", None, None)]


def test_a_command_shows_what_it_said_and_how_it_ended() -> None:
    text = "Exit code 2\n\x1b[31mno\x1b[0m"
    command, output = shown("Bash", {"command": "make"}, text, f"Error: {text}", error=True)
    assert isinstance(command, TextPart)
    assert isinstance(output, TextPart)
    assert (command.text, output.title, output.text) == ("make", "exit 2", "\x1b[31mno\x1b[0m")
    done = {"stdout": "out", "stderr": "err", "interrupted": False, "isImage": False, "backgroundTaskId": "b1"}
    titles = [
        (piece.title, piece.text)
        for piece in shown("Bash", {"command": "x"}, structured=done)
        if isinstance(piece, TextPart)
    ]
    assert titles == [("command", "x"), ("stdout", "out"), ("stderr", "err"), ("", "in the background as b1")]


def test_what_was_read_has_true_line_numbers() -> None:
    (code,) = shown("Read", {"file_path": "/a.py"}, structured=READ)
    assert isinstance(code, CodePart)
    assert (code.first, code.total, code.path) == (10, 40, "/home/me/project/a.py")
    (told,) = shown(
        "Read", {"file_path": "/a.py"}, "     7→x = 1\n     8→y = 2\n\n<system-reminder>z</system-reminder>"
    )
    assert isinstance(told, CodePart)
    assert (told.first, told.text) == (7, "x = 1\ny = 2")


def test_pictures_are_shown_wherever_they_come_from() -> None:
    blocks = [{"type": "text", "text": "a shot"}, image()]
    found = shown("mcp__x__shot", {"url": "u"}, blocks)
    assert [type(piece) for piece in found] == [DataPart, TextPart, ImagesPart]
    read = {"type": "image", "file": {"base64": image()["source"]["data"], "type": "image/png"}}
    (piece,) = shown("Read", {"file_path": "/a.png"}, [image()], read)
    assert isinstance(piece, ImagesPart)
    assert [(one.mime, one.width, one.height) for one in piece.pictures] == [("image/png", 1, 1)]


def test_a_question_shows_what_was_chosen() -> None:
    answered = {"questions": [QUESTION], "answers": {"Which colour?": "Blue"}}
    (question,) = shown("AskUserQuestion", {"questions": [QUESTION]}, structured=answered)
    assert isinstance(question, QuestionPart)
    assert [(choice.label, choice.chosen) for choice in question.choices] == [("Red", False), ("Blue", True)]
    assert question.answer == "Blue"


def test_a_list_shows_what_is_done() -> None:
    todos = [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]
    (checklist,) = shown("TodoWrite", {"todos": todos})
    assert isinstance(checklist, ChecklistPart)
    assert [(task.text, task.status) for task in checklist.tasks] == [("a", "completed"), ("b", "pending")]


@pytest.mark.parametrize("whole", [False, True])
def test_a_long_value_is_cut_unless_all_of_it_is_asked_for(tmp_path: Path, whole: bool) -> None:
    text = "x" * 100_000
    view = viewed(tmp_path, user("go"), answer(tool_use("Grep", pattern="x")), tool_result(text))
    key = next(row.key for section in view.sections.read_turns(None) for row in section.rows if row.kind == "call")
    (result,) = read_detail(view, key, whole=whole).result
    assert isinstance(result, TextPart)
    assert (len(result.text), result.length) == (100_000 if whole else 65_536, 100_000)


@settings(deadline=None)
@given(
    name=st.sampled_from([*INPUT_TYPES, "mcp__a__b", ""]), value=json_values, content=json_values,
    structured=json_values, error=st.booleans(),
)  # fmt: skip
def test_whatever_a_tool_was_given_and_gave_is_shown(
    name: str, value: Any, content: Any, structured: Any, error: bool
) -> None:
    block = {"type": "tool_use", "id": "x", "name": name, "input": value}
    lines = [user("go"), answer(block), tool_result(content, id="x", structured=structured, error=error)]
    for call in find_tool_calls(session(*lines).entries):
        assert all(isinstance(piece, DetailPart) for piece in detail_parts.call_parts(call))
        assert list(detail_parts.result_parts(call)) == list(detail_parts.result_parts(call))
