"""A tool call in one line: what it was aimed at, how it ended, what it changed.

Rules
  1. Nothing raises: inputs and results are whatever a model or a server wrote.
  2. Paths are shown from the folder the session worked in.
"""

from __future__ import annotations

import re
from typing import Any

from unspool.export.words import words_of
from unspool.format import agent_tools, file_tools, plan_tools, shell_tools, web_tools
from unspool.format.file_tools import Hunk
from unspool.format.inputs import OtherInput, parse
from unspool.graph.calls import ToolCall

_ERROR_TAGS = re.compile(r"</?tool_use_error>")


def target(call: ToolCall, cwd: str | None) -> str:
    """Return what a call was aimed at, on one line: a path, a command, a pattern, an address."""
    match parse(call.name, call.input):
        case file_tools.ReadInput(file_path=path, offset=offset, limit=limit):
            return shorter(path, cwd) + _lines(offset, limit)
        case (
            file_tools.WriteInput(file_path=path)
            | file_tools.EditInput(file_path=path)
            | file_tools.MultiEditInput(file_path=path)
            | file_tools.NotebookEditInput(notebook_path=path)
            | file_tools.NotebookReadInput(notebook_path=path)
            | file_tools.LSInput(path=path)
        ):
            return shorter(path, cwd)
        case file_tools.GrepInput(pattern=pattern, path=path) | file_tools.GlobInput(pattern=pattern, path=path):
            return f"{first_line(pattern)} in {shorter(path, cwd)}" if path else first_line(pattern)
        case file_tools.LSPInput(operation=operation, file_path=path, line=line):
            return f"{operation} {shorter(path, cwd)}" + (f":{line}" if line is not None else "")
        case shell_tools.BashInput(command=command) | shell_tools.MonitorInput(command=str(command)):
            return first_line(command)
        case agent_tools.AgentInput(description=description, subagent_type=kind):
            return description + (f" ({kind})" if kind else "")
        case web_tools.WebFetchInput(url=url):
            return url
        case web_tools.WebSearchInput(query=query):
            return first_line(query)
        case plan_tools.TodoWriteInput(todos=tuple() as todos):
            done = sum(1 for todo in todos if isinstance(todo, plan_tools.Todo) and todo.status == "completed")
            return f"{done} of {len(todos)} done"
        case plan_tools.TaskUpdateInput(task_id=id, status=status):
            return f"{id} {status}" if status else id
        case plan_tools.ExitPlanModeInput(plan=plan):
            return first_line(plan or "")
        case OtherInput(value=value):
            return _first_value(value, cwd)
        case _:
            return _first_value(call.input, cwd)


def error(call: ToolCall) -> str:
    """Return the text of a failed call's result."""
    return _ERROR_TAGS.sub("", result_text(call)).strip() if call.failed else ""


def result_text(call: ToolCall) -> str:
    """Return what a call gave back, in words."""
    return words_of(call.result.blocks) if call.result else ""


def diff(call: ToolCall) -> list[str]:
    """Return what a call changed in a file, as the lines of a patch; a new file is all additions."""
    if call.failed:
        return []
    match call.structured:
        case file_tools.WriteResult(type="create", content=content, structured_patch=()):
            return [f"+{line}" for line in content.splitlines()]
        case (
            file_tools.WriteResult(structured_patch=hunks)
            | file_tools.EditResult(structured_patch=hunks)
            | file_tools.MultiEditResult(structured_patch=hunks)
        ):
            return [line for hunk in hunks for line in [_head(hunk), *hunk.lines]]
        case _:
            return []


def nearest(patch: list[str]) -> list[str]:
    """Return the changed lines of a patch, each with the line before and after it."""
    changed = {at for at, line in enumerate(patch) if line.startswith(("+", "-"))}
    return [line for at, line in enumerate(patch) if line.startswith("@") or changed & {at - 1, at, at + 1}]


def changes(patch: list[str]) -> str:
    """Return how much a patch changes: `+12 -3`."""
    if not patch:
        return ""
    return f"+{sum(line.startswith('+') for line in patch)} -{sum(line.startswith('-') for line in patch)}"


def shorter(path: str, cwd: str | None) -> str:
    """Return a path from a folder on, if it lies in it.

    >>> shorter("/home/me/project/src/a.py", "/home/me/project")
    'src/a.py'
    """
    folder = (cwd or "").rstrip("/\\")
    if folder and path.startswith((folder + "/", folder + "\\")):
        return path[len(folder) + 1 :]
    return path


def first_line(text: str) -> str:
    """Return the first line that says something, with `…` if there are more."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] + (" …" if len(lines) > 1 else "") if lines else ""


def _lines(offset: float | None, limit: float | None) -> str:
    if offset is None and limit is None:
        return ""
    start = int(offset or 1)
    return f":{start}-{start + int(limit) - 1}" if limit is not None else f":{start}-"


def _head(hunk: Hunk) -> str:
    return f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@"


def _first_value(value: Any, cwd: str | None) -> str:
    """Return the first words in an input nobody described."""
    if isinstance(value, str):
        return first_line(value)
    values = value.values() if isinstance(value, dict) else []
    for one in values:
        match one:
            case str() if one.strip():
                return first_line(shorter(one, cwd))
            case list() if one and isinstance(one[0], dict):
                return _first_value(one[0], cwd)
            case _:
                pass
    return ""
