"""Describes a tool call: its result, what it changed, and how it ended in a few words and numbers.

Rules
  1. Nothing raises: inputs and results are whatever a model, a tool or a server wrote.
  2. Changes are counted in the tool's own patch, never guessed from the input.
"""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from unspool.display import amount
from unspool.export.block_text import blocks_to_text
from unspool.format import Image, ToolResult
from unspool.format.tools import AnyResult, Hunk
from unspool.format.tools import agents as agent_tools
from unspool.format.tools import files as file_tools
from unspool.format.tools import plans as plan_tools
from unspool.format.tools import shell as shell_tools
from unspool.format.tools import web as web_tools
from unspool.graph import ToolCall, join_text

_ERROR_TAGS = re.compile(r"</?tool_use_error>")


def error_text(call: ToolCall) -> str:
    """Return the text of a failed call's result."""
    return strip_error_tags(result_text(call)) if call.failed else ""


def result_text(call: ToolCall) -> str:
    """Return the result of a call as text."""
    return blocks_to_text(call.result.blocks) if call.result else ""


def diff_lines(call: ToolCall) -> list[str]:
    """Return what a call changed in a file, as the lines of a patch; a new file is all additions."""
    if call.failed:
        return []
    match call.structured:
        # Claude Code writes no patch for a new file.
        case file_tools.WriteResult(type="create", content=content, structured_patch=()):
            return [f"+{line}" for line in content.splitlines()]
        case (
            file_tools.WriteResult(structured_patch=hunks)
            | file_tools.EditResult(structured_patch=hunks)
            | file_tools.MultiEditResult(structured_patch=hunks)
        ):
            return [line for hunk in hunks for line in [_hunk_header(hunk), *hunk.lines]]
        case _:
            return []


def changed_lines_with_context(patch: list[str]) -> list[str]:
    """Return the changed lines of a patch, each with the line before and after it."""
    changed = {index for index, line in enumerate(patch) if line.startswith(("+", "-"))}
    return [line for index, line in enumerate(patch) if line.startswith("@") or changed & {index - 1, index, index + 1}]


def count_changes(patch: list[str]) -> str:
    """Return how many lines a patch adds and removes: `+12 -3`."""
    added, removed = count_changed_lines(patch)
    return f"+{added} -{removed}" if patch else ""


def count_changed_lines(patch: list[str]) -> tuple[int, int]:
    """Return how many lines a patch adds, and how many it removes."""
    return sum(line.startswith("+") for line in patch), sum(line.startswith("-") for line in patch)


def _hunk_header(hunk: Hunk) -> str:
    return f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@"


_EXIT = re.compile(r"\A(?:Error: )?Exit code (\d{1,6})\b\n?")
_REJECTED = ("The user doesn't want to proceed", "The user doesn't want to take this action", "User rejected")
_INTERRUPTED = ("[Request interrupted by user", "Interrupted by user", "Request interrupted")
REFUSALS = _REJECTED + _INTERRUPTED
"""How the result of a call begins that the user rejected or interrupted."""


class CallState(Enum):
    """How a tool call ended."""

    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    REJECTED = "rejected"
    OPEN = "open"
    """No result yet."""


class CallOutcome(msgspec.Struct, frozen=True):
    """The state of a call, and its result in a few words and numbers."""

    state: CallState
    words: str = ""
    """`exit 1 · 3 lines`, `59 lines`, `+2 −0`, `4 matches`."""
    size: int | None = None
    """Bytes of the result that the model was sent."""
    added: int = 0
    removed: int = 0


def describe_outcome(call: ToolCall) -> CallOutcome:
    """Return how a call ended."""
    if call.result is None:
        return CallOutcome(CallState.OPEN, "no result yet")
    text = join_text(call.result.blocks)
    state = _find_state(call, text)
    size = len(text.encode(errors="replace"))
    if state is not CallState.DONE:
        return CallOutcome(state, _describe_failure(state, text), size)
    patch = diff_lines(call)
    added, removed = count_changed_lines(patch)
    words = (
        f"+{added} −{removed}" if patch else _describe_result(call.structured) or _describe_output(call.result, text)
    )
    return CallOutcome(state, words, size, added, removed)


def split_exit_code(text: str) -> tuple[int | None, str]:
    """Return the exit code that a failed command's result begins with, and the output after it."""
    match = _EXIT.match(text)
    return (int(match[1]), text[match.end() :]) if match else (None, text)


def is_refusal(text: str) -> bool:
    """Tell whether a failed result says that the user rejected or interrupted the call."""
    return text.startswith(REFUSALS)


def strip_error_tags(text: str) -> str:
    """Return the text of a failed result without the tags that Claude Code puts around it."""
    return _ERROR_TAGS.sub("", text).strip()


def _find_state(call: ToolCall, text: str) -> CallState:
    structured = call.structured
    # Before `failed`: the result of an interrupted command need not be an error.
    if isinstance(structured, shell_tools.BashResult) and structured.interrupted:
        return CallState.INTERRUPTED
    if not call.failed:
        return CallState.DONE
    if text.startswith(_REJECTED):
        return CallState.REJECTED
    return CallState.INTERRUPTED if text.startswith(_INTERRUPTED) else CallState.FAILED


def _describe_failure(state: CallState, text: str) -> str:
    if state is not CallState.FAILED:
        return str(state.value)
    code, _ = split_exit_code(text)
    if code is not None:
        return f"exit {code} · {amount(_line_count(text) - 1, 'line')}"
    lines = _ERROR_TAGS.sub("", text).splitlines()
    return next((line.strip() for line in lines if line.strip()), "failed")


def _describe_output(result: ToolResult, text: str) -> str:
    images = sum(isinstance(block, Image) for block in result.blocks)
    parts = [amount(images, "image")] if images else []
    if text.strip() or not images:
        parts.append(amount(_line_count(text), "line"))
    return " · ".join(parts)


def _describe_result(structured: AnyResult | None) -> str | None:
    match structured:
        case file_tools.ReadText(file=file_tools.TextFile(num_lines=int(number))):
            return amount(number, "line")
        case file_tools.ReadUnchanged():
            return "unchanged"
        case file_tools.ReadNotebook(file=file):
            return amount(len(file.cells), "cell")
        case file_tools.GrepResult(mode="content", num_lines=number):
            return amount(number or 0, "line")
        case file_tools.GrepResult(mode="count", num_matches=number):
            return amount(number or 0, "match", "matches")
        case file_tools.GlobResult(num_files=number) | file_tools.GrepResult(num_files=number):
            return amount(number, "file")
        case shell_tools.BashResult(background_task_id=str()) | agent_tools.AgentLaunched():
            return "in the background"
        case shell_tools.BashResult(return_code_interpretation=meaning):
            lines = _line_count(structured.stdout) + _line_count(structured.stderr)
            output = "image" if structured.is_image else amount(lines, "line")
            return f"{meaning} · {output}" if meaning else output
        case agent_tools.AgentCompleted(total_tool_use_count=count):
            return amount(count, "call") if isinstance(count, int) else "done"
        case plan_tools.AskUserQuestionResult(answers=answers) if answers:
            return ", ".join(plan_tools.join_answer(answer) for answer in answers.values())
        case web_tools.WebFetchResult(code=int(code)):
            return str(code)
        case web_tools.WebSearchResult(results=results):
            hits = sum(len(item.content) for item in results if isinstance(item, web_tools.WebSearchHits))
            return amount(hits, "page")
        case _:
            return None


def _line_count(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)
