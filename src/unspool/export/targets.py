"""A tool call in one line: what it was aimed at, how it ended, what it changed.

Rules
  1. Nothing raises: inputs and results are whatever a model or a server wrote.
  2. Paths are shown from the folder the session worked in.
"""

from __future__ import annotations

import re

from unspool.export.words import words_of
from unspool.format import file_tools
from unspool.format.file_tools import Hunk
from unspool.graph.aims import aim, first_line, shorter
from unspool.graph.calls import ToolCall

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
