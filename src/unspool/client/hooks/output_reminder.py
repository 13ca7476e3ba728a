"""Reminds a model that ends its turn without the structured output that was asked for."""

from __future__ import annotations

from unspool.client.hooks.answers import HookCall, HookReply
from unspool.client.tools.structured_output import StructuredOutputTool

_MAX_REMINDERS = 2
_REMINDER = "You MUST call the StructuredOutput tool to complete this request. Call this tool now."


class OutputReminder:
    """A stop hook of our own: it blocks the end of a turn without the output, a few times."""

    label, timeout = "StructuredOutput", 1.0

    def __init__(self, tool: StructuredOutputTool) -> None:
        self._tool = tool
        self._reminders = 0

    async def call(self, call: HookCall) -> HookReply:
        """Block the end of the turn if there is no output yet."""
        if self._tool.take_output() is not None or self._reminders >= _MAX_REMINDERS:
            self._reminders = 0
            return HookReply()
        self._reminders += 1
        return HookReply(blocked=_REMINDER)
