"""Calls of tools as the loop makes them, in a folder of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from unspool.client.tool_context import ToolContext, Workspace
from unspool.client.tool_result import ToolOutcome
from unspool.client.tools.registry import built_in_tools, run_tool
from unspool.format.tools import parse
from unspool.format.tools.parse import AnyResult, TextResult

FACTS = Path(__file__).parents[2] / "format" / "facts" / "tool_results.tsv"
KEYS: dict[str, set[str]] = {}
for _line in FACTS.read_text().splitlines()[1:]:
    _tool, _, _keys = _line.partition("\t")
    KEYS.setdefault(_tool, set()).add(_keys)
KEYS.pop("NotebookEdit")  # only that of 1.0.x is known
SESSION = "11111111-2222-4333-8444-555555555555"


def context_in(folder: Path) -> ToolContext:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    config = folder / "config"
    return ToolContext(
        Workspace(config, config / "projects" / "work", SESSION, work), {"HOME": str(folder), "PATH": "/bin"}
    )


def call(context: ToolContext, name: str, **given: Any) -> ToolOutcome:
    return call_with(context, name, given)


def call_with(context: ToolContext, name: str, given: Any) -> ToolOutcome:
    (tool,) = [tool for tool in built_in_tools() if tool.name == name]
    return asyncio.run(run_tool(tool, given, context, "toolu_1"))


def text_of(outcome: ToolOutcome) -> str:
    assert isinstance(outcome.content, str)
    return outcome.content


def problem_of(outcome: ToolOutcome) -> str:
    """Return the words of a call that failed; the session's words are the same."""
    assert outcome.is_error
    text = text_of(outcome).removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    assert outcome.result in {text, f"Error: {text}"}
    return text


def decoded(name: str, outcome: ToolOutcome) -> AnyResult:
    """Return a result as the library reads it: every value fit, and the keys those of a genuine result."""
    if name in KEYS:
        assert " ".join(sorted(outcome.result)) in KEYS[name]
    found = parse.parse_result(name, msgspec.json.encode(outcome.result))
    assert found is not None
    assert not isinstance(found, (TextResult, parse.ListResult, parse.OtherResult)), outcome.result
    again = msgspec.to_builtins(found)
    assert _without_nothing(again) == _without_nothing(outcome.result)
    return found


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nothing(part) for key, part in value.items() if part is not None}
    if isinstance(value, (list, tuple)):
        return [_without_nothing(part) for part in value]
    return value
