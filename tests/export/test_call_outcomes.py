"""How a call ended, in a few words."""

from __future__ import annotations

from typing import Any

import pytest

from unspool.export.describe_calls import CallState, describe_outcome
from unspool.graph.tool_calls import find_tool_calls
from unspool.testing.build import assistant, image, session, tool_result, tool_use, user

BASH = {"stdout": "a\nb", "stderr": "c", "interrupted": False, "isImage": False}
CASES = [
    ("Bash", "x", BASH, False, "done", "3 lines"),
    ("Bash", "x", {**BASH, "interrupted": True}, False, "interrupted", "interrupted"),
    ("Bash", "x", {**BASH, "backgroundTaskId": "b"}, False, "done", "in the background"),
    (
        "Bash",
        "x",
        {**BASH, "returnCodeInterpretation": "No matches found"},
        False,
        "done",
        "No matches found · 3 lines",
    ),
    ("Bash", "Exit code 1\na\nb", None, True, "failed", "exit 1 · 2 lines"),
    ("Read", "1\tx", {"type": "text", "file": {"numLines": 59, "content": "x"}}, False, "done", "59 lines"),
    ("Read", "<tool_use_error>File does not exist.</tool_use_error>", None, True, "failed", "File does not exist."),
    ("Read", "", {"type": "file_unchanged", "file": {"filePath": "/a"}}, False, "done", "unchanged"),
    ("Grep", "x", {"mode": "count", "numMatches": 4, "numFiles": 2, "filenames": []}, False, "done", "4 matches"),
    ("Grep", "x", {"mode": "content", "numLines": 1, "numFiles": 0, "filenames": []}, False, "done", "1 line"),
    ("Glob", "x", {"numFiles": 3, "filenames": []}, False, "done", "3 files"),
    (
        "Write",
        "ok",
        {"type": "create", "filePath": "/a", "content": "a\nb", "structuredPatch": []},
        False,
        "done",
        "+2 −0",
    ),
    ("mcp__a__b", [{"type": "text", "text": "t"}, image()], None, False, "done", "1 image · 1 line"),
    ("mcp__a__b", [image(), image()], None, False, "done", "2 images"),
    ("Edit", "The user doesn't want to proceed with this", None, True, "rejected", "rejected"),
    ("Edit", "[Request interrupted by user for tool use]", None, True, "interrupted", "interrupted"),
    ("WebFetch", "x", {"url": "u", "code": 404, "codeText": "n", "result": ""}, False, "done", "404"),
    ("Other", "", None, False, "done", "0 lines"),
]


@pytest.mark.parametrize(("name", "content", "structured", "error", "state", "words"), CASES)
def test_a_call_ended(name: str, content: Any, structured: Any, error: bool, *, state: str, words: str) -> None:
    lines = [user("go"), assistant(tool_use(name)), tool_result(content, structured=structured, error=error)]
    (call,) = find_tool_calls(session(*lines).entries)
    found = describe_outcome(call)
    assert (found.state.value, found.words) == (state, words)


def test_a_call_without_a_result_is_open() -> None:
    (call,) = find_tool_calls(session(user("go"), assistant(tool_use("Bash"))).entries)
    assert describe_outcome(call).state is CallState.OPEN
