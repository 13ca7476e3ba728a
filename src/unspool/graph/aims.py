"""What a tool call is aimed at, in one line: a tool's name and input in, a path, command, pattern or address out.

Rules
  1. Nothing raises: inputs are whatever a model wrote.
  2. Paths are shown from the folder the session works in.
"""

from __future__ import annotations

from typing import Any

from unspool.format import agent_tools, file_tools, plan_tools, shell_tools, web_tools
from unspool.format.inputs import OtherInput, parse


def aim(tool: str, value: object, cwd: str | None) -> str:
    """Return what a call of a tool with this input is aimed at."""
    match parse(tool, value):
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
        case OtherInput(value=other):
            return _first_value(other, cwd)
        case _:
            return _first_value(value, cwd)


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
