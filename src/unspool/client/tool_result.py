"""The result of a tool call, the change that it would make, and the exceptions of a tool that failed.

This module sits below everything in `client` that handles tool calls, and imports nothing of it.

Rules
  1. A failure is a `ToolOutcome` with `is_error`, worded so that a model can act on it; the tool runner makes one of
     each `ToolFailed`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool call returns to the model, and what it leaves in the session file."""

    content: str | list[Json]
    """What the model gets: a text, or blocks (texts, images, documents)."""
    result: Any = None
    """`toolUseResult`, in Claude Code's own shape for this tool. None: the line has none."""
    is_error: bool = False
    extra: tuple[Json, ...] = ()
    """Blocks that follow in a meta line of the user's, as Claude Code does with a PDF."""
    ends_turn: str | None = None
    """The text that the turn ends with after this call; None: it continues."""
    names_source: bool = False
    """Whether this line names the call, as that of a skill does (`sourceToolUseID`)."""
    mcp_meta: Json | None = None
    """What the server of an MCP tool returned besides its content; not for the model."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would change in a file, for a user to look at before it is made."""

    path: str
    """Without links."""
    is_new: bool
    """Whether there is no such file yet."""
    hunks: list[Json]
    """The difference, as in `structuredPatch`."""


class ToolFailed(Exception):
    """A call that failed. The text goes to the model; `toolUseResult` becomes `Error: <text>`."""


class InvalidToolCall(ToolFailed):
    """A call that was not begun, because of its input: the model gets the text as `<tool_use_error>`."""

    result_prefix = "Error: "
    """What stands before the text in `toolUseResult`."""
