"""The `Tool` protocol: what the agent loop and the permission check need of a tool.

Rules
  1. A tool never asks for permission and never writes a line: the loop does, before and after.
  2. A tool that is cancelled (`asyncio.CancelledError`) ends what it started, and lets the cancellation pass.
"""

from __future__ import annotations

import re
from typing import Protocol

from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import FileChange, Json, ToolOutcome

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class Tool(Protocol):
    """One tool. Tools hold no state: what they share is in the context of the call."""

    name: str
    description: str
    """For the model; short."""
    input_schema: Json
    is_concurrent: bool
    """Whether it may run beside other calls, because it only reads."""

    def target(self, input: Json) -> str:
        """Return what a call is aimed at, in a few words; never fails."""

    def check(self, input: Json) -> None:
        """Raise an `InvalidToolCall` if the input does not fit: before anybody is asked about the call."""

    def preview(self, input: Json, context: ToolContext, call_id: str) -> FileChange | None:
        """Return what a call would change in a file, and change nothing; a `ToolFailed` if it cannot be made.

        None: the tool changes no file.
        """

    async def run(self, input: Json, context: ToolContext, call_id: str) -> ToolOutcome:
        """Make the call. The input may be anything; what does not fit is a `ToolFailed`."""


def normalize_name(name: str) -> str:
    """Return a name with `_` for what the API does not allow in names of tools, as Claude Code writes it."""
    return _NOT_IN_NAMES.sub("_", name)
