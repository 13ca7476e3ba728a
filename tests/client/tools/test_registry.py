import asyncio
import errno
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from tests.client.tools.calling import call_with, context_in, problem_of, text_of
from tests.profiles import examples
from tests.strategies import json_values
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import ToolFailed, ToolOutcome
from unspool.client.tools.registry import built_in_tools, run_tool, tool_definitions, with_former_names
from unspool.errors import Refused
from unspool.testing.strict import problems


class Breaking:
    """A tool that breaks."""

    name = "Breaking"
    description = "Breaks."
    input_schema: dict[str, Any] = {"type": "object"}  # noqa: RUF012
    is_concurrent = True

    def __init__(self, problem: BaseException) -> None:
        self._problem = problem

    def target(self, input: dict[str, Any]) -> str:
        return ""

    def check(self, input: dict[str, Any]) -> None:
        """Accept any input."""

    def preview(self, input: dict[str, Any], context: ToolContext, call_id: str) -> None:
        """Change no file."""

    async def run(self, input: dict[str, Any], context: ToolContext, call_id: str) -> ToolOutcome:
        raise self._problem


def broken(problem: BaseException, tmp_path: Path) -> ToolOutcome:
    return asyncio.run(run_tool(Breaking(problem), {}, context_in(tmp_path), "toolu_1"))


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (ToolFailed("it is so"), "it is so"),
        (ToolFailed("  "), "The tool failed without saying why."),
        (Refused("no", hint="ask first"), "no (ask first)"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "EACCES: permission denied, '/x'"),
        (ZeroDivisionError("division by zero"), "Breaking broke: ZeroDivisionError: division by zero"),
        (RecursionError("too deep"), "Breaking broke: RecursionError: too deep"),
    ],
)
def test_whatever_breaks_in_a_tool_is_told_to_the_model(problem: Exception, words: str, tmp_path: Path) -> None:
    outcome = broken(problem, tmp_path)
    assert outcome.is_error
    assert (outcome.content, outcome.result) == (words, f"Error: {words}")


def test_only_a_cancellation_passes(tmp_path: Path) -> None:
    with pytest.raises(asyncio.CancelledError):
        broken(asyncio.CancelledError(), tmp_path)


def test_what_comes_out_can_be_written_down(tmp_path: Path) -> None:
    outcome = broken(ToolFailed("a name: caf\udce9"), tmp_path)
    assert outcome.content == "a name: caf\ufffd"
    msgspec.json.encode(outcome)


@pytest.mark.parametrize("name", [tool.name for tool in built_in_tools()])
@settings(max_examples=examples(20), deadline=None)
@given(value=json_values)
def test_any_input_is_answered_in_words(tmp_path_factory: Any, name: str, value: Any) -> None:
    outcome = call_with(context_in(tmp_path_factory.mktemp("any")), name, value)
    (tool,) = [tool for tool in built_in_tools() if tool.name == name]
    if tool.input_schema.get("required"):
        assert outcome.is_error
    assert text_of(outcome)
    assert " broke: " not in text_of(outcome)
    assert isinstance(tool.target(value if isinstance(value, dict) else {}), str)


@pytest.mark.parametrize(
    ("name", "given", "issues"),
    [
        ("Read", {}, ["The required parameter `file_path` is missing"]),
        ("Read", {"file_path": 5}, ["The parameter `file_path` type is expected as `string` but provided as `number`"]),
        (
            "Read",
            {"file_path": "a", "offset": 1.5},
            ["The parameter `offset` is expected as a whole number but provided as `1.5`"],
        ),
        ("Read", {"file_path": "a", "bogus": 1}, ["An unexpected parameter `bogus` was provided"]),
        ("Read", ["a"], ["The input is expected as `object` but provided as `array`"]),
        (
            "Edit",
            {"file_path": "a", "old_string": None, "replace_all": "perhaps"},
            [
                "The required parameter `new_string` is missing",
                "The parameter `old_string` type is expected as `string` but provided as `null`",
                "The parameter `replace_all` type is expected as `boolean` but provided as `string`",
            ],
        ),
        (
            "Grep",
            {"pattern": "x", "output_mode": "all", "head_limit": -1},
            [
                "The parameter `output_mode` is expected as one of `content`, `count`, `files_with_matches` "
                "but provided as `all`",
                "The parameter `head_limit` is expected as `0` or more but provided as `-1`",
            ],
        ),
        (
            "TodoWrite",
            {"todos": ["x", {"content": "", "status": "odd"}]},
            [
                "The parameter `todos[0]` type is expected as `object` but provided as `string`",
                "The required parameter `todos[1].activeForm` is missing",
                "The parameter `todos[1].content` cannot be empty",
                "The parameter `todos[1].status` is expected as one of `completed`, `in_progress`, `pending` "
                "but provided as `odd`",
            ],
        ),
    ],
)
def test_all_that_is_wrong_with_an_input_is_said(name: str, given: Any, issues: list[str], tmp_path: Path) -> None:
    words = problem_of(call_with(context_in(tmp_path), name, given))
    first, *lines = words.split("\n")
    assert first.startswith(f"InputValidationError: {name} failed due to the following issue")
    assert lines == issues


def test_a_model_may_write_numbers_and_truth_as_texts_and_nothing_as_null(tmp_path: Path) -> None:
    context = context_in(tmp_path)
    (context.workspace.root / "a.txt").write_text("a\nb\n")
    assert (
        call_with(context, "Read", {"file_path": "a.txt", "offset": "2", "limit": None}).content == "     2→b\n     3→"
    )
    edit = {"file_path": "a.txt", "old_string": "a", "new_string": "c", "replace_all": "true"}
    assert not call_with(context, "Edit", edit).is_error


def test_the_api_takes_the_definitions_and_they_are_short() -> None:
    defined = tool_definitions(built_in_tools())
    messages = [{"role": "user", "content": "Hi"}]
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": messages, "tools": defined}
    assert problems(body) == []
    assert len(msgspec.json.encode(defined)) < 9000
    for tool in defined:
        assert tool["input_schema"]["type"] == "object"
        assert tool["input_schema"]["additionalProperties"] is False
        assert b"$ref" not in msgspec.json.encode(tool)


def test_tools_are_understood_under_the_names_of_other_versions_if_they_are_offered() -> None:
    offered = built_in_tools()
    names = [tool.name for tool in with_former_names(offered, ())]
    assert set(names) - {tool.name for tool in offered} == {
        "Agent", "AgentOutputTool", "BashOutput", "KillBash", "KillShell",
    }  # fmt: skip
    few = [tool for tool in offered if tool.name not in ("Task", "TaskStop")]
    assert {"Agent", "KillBash", "KillShell"}.isdisjoint(tool.name for tool in with_former_names(few, ()))
