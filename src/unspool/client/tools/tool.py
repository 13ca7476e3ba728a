"""What a tool is: a name, an input, what it says to the model and what it leaves in the session.

Rules
  1. A tool never asks for permission and never writes a line: the loop does, before and after.
  2. What went wrong is an `Outcome` with `is_error`, worded so that a model can act on it; `ToolFailed` makes one.
  3. A tool that is cancelled (`asyncio.CancelledError`) ends what it started, and lets the cancellation pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from unspool.client.desk import Desk

Json: TypeAlias = dict[str, Any]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call."""

    content: str | list[Json]
    """What the model is told: a text, or blocks (texts, images, documents)."""
    result: Any = None
    """`toolUseResult`: the program's own shape for this tool. None: the line has none."""
    is_error: bool = False
    extra: tuple[Json, ...] = ()
    """Blocks that follow as a meta line of the user's, as the program does with a PDF."""


class ToolFailed(Exception):
    """A call that cannot be done. The text goes to the model; `toolUseResult` becomes `Error: <text>`."""


class BadCall(ToolFailed):
    """A call that was not begun, because of what it asks for: the model gets the text as `<tool_use_error>`."""

    result_prefix = "Error: "
    """What stands before the text in `toolUseResult`."""


class Tool(Protocol):
    """One tool. Tools hold no state: what they share is on the desk."""

    name: str
    description: str
    """For the model; short."""
    input_schema: Json
    is_concurrent: bool
    """Whether it may run beside other calls: it only looks."""

    def target(self, input: Json) -> str:
        """Return what a call is aimed at, in a few words; never fails."""

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Do it. The input may be anything; what does not fit is a `ToolFailed`."""
