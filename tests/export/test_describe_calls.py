"""Tool calls in a line."""

from __future__ import annotations

from typing import Any

import pytest

from unspool.export import describe_calls
from unspool.graph.tool_calls import ToolCall, describe_target, find_tool_calls
from unspool.testing.build import Step, assistant, image, session, tool_result, tool_use

CWD = "/home/me/project"


def call(name: str, *result: Step, **given: Any) -> ToolCall:
    (made,) = find_tool_calls(session(assistant(tool_use(name, **given)), *result).entries)
    return made


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (call("Read", file_path=f"{CWD}/src/a.py"), "src/a.py"),
        (call("Read", file_path="/etc/hosts", offset=3), "/etc/hosts:3-"),
        (call("Read", file_path=f"{CWD}/a", offset="3", limit=10), "a:3-12"),
        (call("Write", file_path=f"{CWD}2/a"), f"{CWD}2/a"),
        (call("Bash", command="\n make \n make test"), "make …"),
        (call("Grep", pattern="x", path=f"{CWD}/src"), "x in src"),
        (call("Glob", pattern="**/*.py"), "**/*.py"),
        (call("LSP", operation="hover", filePath=f"{CWD}/a.py", line=3), "hover a.py:3"),
        (call("WebFetch", url="https://a.example"), "https://a.example"),
        (call("WebSearch", query="tides"), "tides"),
        (call("Task", description="Look", subagent_type="Explore"), "Look (Explore)"),
        (call("Agent", description="Look"), "Look"),
        (call("TodoWrite", todos=[{"content": "a", "status": "completed"}, {"content": "b"}]), "1 of 2 done"),
        (call("AskUserQuestion", questions=[{"question": "Which?\nNow."}]), "Which? …"),
        (call("mcp__x__y", count=3, where=f"{CWD}/a"), "a"),
        (call("mcp__x__y"), ""),
        (call("Read", file_path={"not": "a path"}), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_call_is_told_by_what_it_was_aimed_at(made: ToolCall, words: str) -> None:
    assert describe_target(made.name, made.input, CWD) == words


def test_an_error_is_told_without_its_tags() -> None:
    failed = call("Read", tool_result("<tool_use_error>No such file</tool_use_error>", error=True))
    assert describe_calls.error_text(failed) == "No such file"
    assert describe_calls.error_text(call("Read", tool_result("fine"))) == ""


def test_a_result_is_told_in_words() -> None:
    assert describe_calls.result_text(call("Read", tool_result([image()]))) == "[image 1×1 png, 70 bytes]"
    assert describe_calls.result_text(call("Read")) == ""


def test_a_change_is_the_patch_the_program_wrote() -> None:
    hunk = {
        "oldStart": 3,
        "oldLines": 1,
        "newStart": 3,
        "newLines": 2,
        "lines": [" a", " b", "-c", "+d", "+e", " f", " g"],
    }
    edited = call("Edit", tool_result("ok", structured={"filePath": "/a", "structuredPatch": [hunk]}), file_path="/a")
    patch = describe_calls.diff_lines(edited)
    assert patch == ["@@ -3,1 +3,2 @@", " a", " b", "-c", "+d", "+e", " f", " g"]
    assert describe_calls.changed_lines_with_context(patch) == ["@@ -3,1 +3,2 @@", " b", "-c", "+d", "+e", " f"]
    assert describe_calls.count_changes(patch) == "+2 -1"


def test_a_new_file_is_all_additions_and_a_failed_edit_changes_nothing() -> None:
    new = {"type": "create", "filePath": "/a", "content": "x\ny\n", "structuredPatch": []}
    assert describe_calls.diff_lines(call("Write", tool_result("ok", structured=new))) == ["+x", "+y"]
    assert describe_calls.diff_lines(call("Write", tool_result("no", error=True, structured=new))) == []
    assert describe_calls.diff_lines(call("Bash", tool_result("x"))) == []
    assert describe_calls.count_changes([]) == ""
