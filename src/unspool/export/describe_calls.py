"""How a tool call ended, in a few words and numbers: a call in, an `Outcome` out.

Rules
  1. Nothing raises: results are whatever a tool or a server wrote.
  2. What changed is counted in the tool's own patch, never guessed from the input.

[merged: targets.py] A tool call in one line: what it was aimed at, how it ended, what it changed.

Rules
  1. Nothing raises: inputs and results are whatever a model or a server wrote.
  2. Paths are shown from the folder the session worked in.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import msgspec

from unspool.display.units import amount
from unspool.export.block_text import words_of
from unspool.format.blocks import Image, Text
from unspool.format.tools import agents as agent_tools
from unspool.format.tools import files as file_tools
from unspool.format.tools import parse as results
from unspool.format.tools import plans as plan_tools
from unspool.format.tools import shell as shell_tools
from unspool.format.tools import web as web_tools
from unspool.format.tools.files import Hunk
from unspool.graph.tool_calls import ToolCall, aim, first_line, shorter

__all__ = ["changes", "diff", "error", "first_line", "nearest", "result_text", "shorter", "target"]

_ERROR_TAGS = re.compile(r"</?tool_use_error>")


def target(call: ToolCall, cwd: str | None) -> str:
    """Return what a call was aimed at, on one line: a path, a command, a pattern, an address."""
    return aim(call.name, call.input, cwd)


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


def _head(hunk: Hunk) -> str:
    return f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@"


_EXIT = re.compile(r"\A(?:Error: )?Exit code (\d{1,6})\b")
_REJECTED = ("The user doesn't want to proceed", "The user doesn't want to take this action", "User rejected")
_INTERRUPTED = ("[Request interrupted by user", "Interrupted by user", "Request interrupted")


class State(Enum):
    """Whether a call did what it was to do."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    REJECTED = "rejected"
    OPEN = "open"
    """No result yet."""


class Outcome(msgspec.Struct, frozen=True):
    """How a call ended."""

    state: State
    words: str = ""
    """`exit 1 · 3 lines`, `59 lines`, `+2 −0`, `4 matches`."""
    size: int | None = None
    """Bytes of the result as the model saw it."""
    added: int = 0
    removed: int = 0


def outcome(call: ToolCall) -> Outcome:
    """Return how a call ended."""
    if call.result is None:
        return Outcome(State.OPEN, "no result yet")
    texts = [block.text for block in call.result.blocks if isinstance(block, Text)]
    text = "\n".join(texts)
    state = _state(call, text)
    size = len(text.encode(errors="replace"))
    if state is not State.DONE:
        return Outcome(state, _failure(state, text), size)
    patch = diff(call)
    added, removed = sum(line.startswith("+") for line in patch), sum(line.startswith("-") for line in patch)
    words = f"+{added} −{removed}" if patch else _words(call.structured, text, _pictures(call))
    return Outcome(state, words, size, added, removed)


def exit_code(text: str) -> int | None:
    """Return the exit code that a failed command's result begins with."""
    found = _EXIT.match(text)
    return int(found[1]) if found else None


def _state(call: ToolCall, text: str) -> State:
    structured = call.structured
    if isinstance(structured, shell_tools.BashResult) and structured.interrupted:
        return State.INTERRUPTED
    if not call.failed:
        return State.DONE
    if text.startswith(_REJECTED):
        return State.REJECTED
    return State.INTERRUPTED if text.startswith(_INTERRUPTED) else State.FAILED


def _failure(state: State, text: str) -> str:
    if state is not State.FAILED:
        return str(state.value)
    code = exit_code(text)
    if code is None:
        return _first(text)
    return f"exit {code} · {amount(_lines(text) - 1, 'line')}"


def _first(text: str) -> str:
    text = re.sub(r"</?tool_use_error>", "", text)
    return next((line.strip() for line in text.splitlines() if line.strip()), "failed")


def _pictures(call: ToolCall) -> int:
    return sum(isinstance(block, Image) for block in call.result.blocks) if call.result else 0


def _words(structured: results.AnyResult | None, text: str, pictures: int) -> str:
    special = _special(structured)
    if special is not None:
        return special
    parts = [amount(pictures, "image")] if pictures else []
    if text.strip() or not pictures:
        parts.append(amount(_lines(text), "line"))
    return " · ".join(parts)


def _special(structured: results.AnyResult | None) -> str | None:
    match structured:
        case file_tools.ReadText(file=file_tools.TextFile(num_lines=int(number))):
            return amount(number, "line")
        case file_tools.ReadUnchanged():
            return "unchanged"
        case file_tools.ReadNotebook(file=file):
            return amount(len(file.cells), "cell")
        case file_tools.GlobResult(num_files=number):
            return amount(number, "file")
        case file_tools.GrepResult():
            return _found(structured)
        case shell_tools.BashResult(background_task_id=str()):
            return "in the background"
        case shell_tools.BashResult():
            return _output(structured)
        case agent_tools.AgentCompleted() | agent_tools.AgentLaunched():
            return _agent(structured)
        case plan_tools.AskUserQuestionResult(answers=answers) if answers:
            return ", ".join(answers.values())
        case web_tools.WebFetchResult(code=int(code)):
            return str(code)
        case web_tools.WebSearchResult(results=found):
            hits = sum(len(one.content) for one in found if isinstance(one, web_tools.Hits))
            return amount(hits, "page")
        case _:
            return None


def _found(result: file_tools.GrepResult) -> str:
    if result.mode == "content":
        return amount(result.num_lines or 0, "line")
    if result.mode == "count":
        return amount(result.num_matches or 0, "match", "matches")
    return amount(result.num_files, "file")


def _output(result: shell_tools.BashResult) -> str:
    lines = _lines(result.stdout) + _lines(result.stderr)
    words = "image" if result.is_image else amount(lines, "line")
    return f"{result.return_code_interpretation} · {words}" if result.return_code_interpretation else words


def _agent(result: agent_tools.AgentCompleted | agent_tools.AgentLaunched) -> str:
    if isinstance(result, agent_tools.AgentLaunched):
        return "in the background"
    count: Any = result.total_tool_use_count
    return amount(count, "call") if isinstance(count, int) else "done"


def _lines(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)
