"""Pairs tool calls with their results and describes what a call is aimed at.

Rules
  1. Pairs are made by id over the whole file: results may come before their call, far after it, or in an assistant
     line (other vendors' servers). Position and stop reasons decide nothing.
  2. A call written twice (history appended again) is one call; so is a result. The first of each counts.
  3. A call without a result is still a call; results without a call are separate (`find_orphan_results`).
  4. The target of a call is one line: a path, command, pattern or address. Nothing raises: inputs are whatever a model
     wrote. Paths are shown relative to the folder the session works in.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from unspool.format import Entry, Text, ToolResult, ToolUse, User, elapsed_time, parse_timestamp
from unspool.format.tools import AnyResult, OtherInput, parse_input, parse_result
from unspool.format.tools import agents as agent_tools
from unspool.format.tools import files as file_tools
from unspool.format.tools import plans as plan_tools
from unspool.format.tools import shell as shell_tools
from unspool.format.tools import web as web_tools

_MAX_MEASURED = 10**10
"""Milliseconds that a result may say; more is no measurement."""


class ToolCall(msgspec.Struct, frozen=True):
    """A call, its result if it came, and the lines of both."""

    use: ToolUse
    use_entry: Entry
    result: ToolResult | None = None
    result_entry: Entry | None = None
    use_index: int = 0
    """Which block of its line the call is."""
    result_index: int = 0

    def __repr__(self) -> str:
        state = "failed" if self.failed else "done" if self.result else "no result"
        return f"<ToolCall {self.name} {describe_target(self.name, self.input, None)[:60]!r}, {state}>"

    @property
    def id(self) -> str:
        """The call's id."""
        return self.use.id

    @property
    def name(self) -> str:
        """The tool's name, as the model wrote it."""
        return self.use.name

    @property
    def input(self) -> Any:
        """The input, as the model wrote it."""
        return self.use.input

    @property
    def arguments(self) -> dict[str, Any]:
        """The input; empty if it is no object."""
        return self.use.input if isinstance(self.use.input, dict) else {}

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return bool(self.result and self.result.is_error)

    @property
    def structured(self) -> AnyResult | None:
        """The tool's own structured result."""
        record = self.result_entry.record if self.result_entry else None
        return parse_result(self.name, record.tool_use_result) if isinstance(record, User) else None

    @property
    def output(self) -> str:
        """The text of the result, without pictures and documents; empty if no result came."""
        blocks = self.result.blocks if self.result else ()
        return "\n".join(block.text for block in blocks if isinstance(block, Text))

    @property
    def started(self) -> datetime | None:
        """When the call was written."""
        return parse_timestamp(self.start_timestamp)

    @property
    def ended(self) -> datetime | None:
        """When the result was written."""
        return parse_timestamp(self.end_timestamp)

    @property
    def start_timestamp(self) -> str | None:
        """When the call was written, as the line has it."""
        return self.use_entry.record.timestamp

    @property
    def end_timestamp(self) -> str | None:
        """When the result was written, as the line has it."""
        return self.result_entry.record.timestamp if self.result_entry else None

    @property
    def duration(self) -> timedelta | None:
        """The time between the two lines: run time, and waiting for permission. None if it is unknown."""
        return elapsed_time(self.start_timestamp, self.end_timestamp)

    @property
    def measured_milliseconds(self) -> int | None:
        """How long the tool ran, if its result says so: without waiting for permission."""
        for name in ("total_duration_ms", "duration_ms"):
            value = getattr(self.structured, name, None)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MAX_MEASURED:
                return round(value)
        return None

    @property
    def overflow(self) -> str | None:
        """The path Claude Code wrote long output to."""
        # Comes from the file and may name any path: use only its last part, below the folder of the session.
        path = getattr(self.structured, "persisted_output_path", None)
        return path if isinstance(path, str) else None


def find_tool_calls(entries: Iterable[Entry]) -> list[ToolCall]:
    """Return every tool call in file order, each with its result if it came."""
    uses, results = collect_uses_and_results(entries)
    calls = []
    for id, (use, entry, index) in uses.items():
        result, result_entry, result_index = results.get(id, (None, None, 0))
        calls.append(ToolCall(use, entry, result, result_entry, index, result_index))
    return calls


def find_orphan_results(entries: Iterable[Entry]) -> list[tuple[ToolResult, Entry]]:
    """Return the results whose call is not in the file."""
    uses, results = collect_uses_and_results(entries)
    return [(result, entry) for id, (result, entry, _) in results.items() if id not in uses]


def collect_uses_and_results(
    entries: Iterable[Entry],
) -> tuple[dict[str, tuple[ToolUse, Entry, int]], dict[str, tuple[ToolResult, Entry, int]]]:
    """Return tool uses and tool results by the id of the call, the first of each: the block, its line, its number."""
    uses: dict[str, tuple[ToolUse, Entry, int]] = {}
    results: dict[str, tuple[ToolResult, Entry, int]] = {}
    for entry in entries:
        for index, block in enumerate(entry.content_blocks):
            if isinstance(block, ToolUse):
                uses.setdefault(block.id, (block, entry, index))
            elif isinstance(block, ToolResult):
                results.setdefault(block.tool_use_id, (block, entry, index))
    return uses, results


def describe_target(tool: str, value: object, cwd: str | None) -> str:
    """Return what a call of a tool with this input is aimed at, on one line."""
    match parse_input(tool, value):
        case file_tools.ReadInput(file_path=path, offset=offset, limit=limit):
            return relative_path(path, cwd) + _line_range(offset, limit)
        case (
            file_tools.WriteInput(file_path=path)
            | file_tools.EditInput(file_path=path)
            | file_tools.MultiEditInput(file_path=path)
            | file_tools.NotebookEditInput(notebook_path=path)
            | file_tools.NotebookReadInput(notebook_path=path)
            | file_tools.LSInput(path=path)
        ):
            return relative_path(path, cwd)
        case file_tools.GrepInput(pattern=pattern, path=path) | file_tools.GlobInput(pattern=pattern, path=path):
            return f"{first_line(pattern)} in {relative_path(path, cwd)}" if path else first_line(pattern)
        case file_tools.LSPInput(operation=operation, file_path=path, line=line):
            return f"{operation} {relative_path(path, cwd)}" + (f":{line}" if line is not None else "")
        case shell_tools.BashInput(command=command) | shell_tools.MonitorInput(command=str(command)):
            return first_line(command)
        case agent_tools.AgentInput(description=description, subagent_type=kind):
            return description + (f" ({kind})" if kind else "")
        case web_tools.WebFetchInput(url=url):
            return url
        case web_tools.WebSearchInput(query=query):
            return first_line(query)
        case plan_tools.TodoWriteInput(todos=tuple() as todos):
            completed = sum(1 for todo in todos if isinstance(todo, plan_tools.Todo) and todo.status == "completed")
            return f"{completed} of {len(todos)} done"
        case plan_tools.TaskUpdateInput(task_id=id, status=status):
            return f"{id} {status}" if status else id
        case plan_tools.ExitPlanModeInput(plan=plan):
            return first_line(plan or "")
        case OtherInput(value=other):
            return _first_value(other, cwd)
        case _:
            return _first_value(value, cwd)


def relative_path(path: str, cwd: str | None) -> str:
    """Return a path relative to a folder, if it is below it.

    >>> relative_path("/home/me/project/src/a.py", "/home/me/project")
    'src/a.py'
    """
    folder = (cwd or "").rstrip("/\\")
    if folder and path.startswith((folder + "/", folder + "\\")):
        return path[len(folder) + 1 :]
    return path


def first_line(text: str) -> str:
    """Return the first line that is not blank, with `…` if there are more."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] + (" …" if len(lines) > 1 else "") if lines else ""


def _line_range(offset: float | None, limit: float | None) -> str:
    if offset is None and limit is None:
        return ""
    start = int(offset or 1)
    return f":{start}-{start + int(limit) - 1}" if limit is not None else f":{start}-"


def _first_value(value: Any, cwd: str | None) -> str:
    """Return the first text in an input of an unknown tool."""
    if isinstance(value, str):
        return first_line(value)
    for item in value.values() if isinstance(value, dict) else ():
        match item:
            case str() if item.strip():
                return first_line(relative_path(item, cwd))
            case [dict() as first, *_]:
                return _first_value(first, cwd)
            case _:
                pass
    return ""
