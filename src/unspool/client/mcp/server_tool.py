"""A tool of an MCP server, as the agent loop sees it: `mcp__server__tool`.

Rules
  1. Its input is checked against the schema of the server before anybody is asked about the call, as far as the schema
     says which fields there are and of which type.
  2. A call that the server does not answer is an error that names the server; the chat continues.
  3. Progress is written as Claude Code does: when the call starts and ends, and what the server reports, up to a bound.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from unspool.client.mcp.connection_end import ServerEnded
from unspool.client.mcp.offers import ToolDescription
from unspool.client.mcp.results import ResultFiles, make_outcome
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, Json, ToolFailed, ToolOutcome
from unspool.client.tools.structured_output import find_violations
from unspool.display import clean_line

if TYPE_CHECKING:
    from unspool.client.mcp.connection import ServerConnection

_MAX_PROGRESS = 50
"""How many reports of progress of one call are written."""
_MAX_TARGET = 200


class ServerTool:
    """One tool of a server."""

    def __init__(self, connection: ServerConnection, described: ToolDescription) -> None:
        self.name = described.name
        self.description = described.description
        self.input_schema = described.input_schema
        # What a server says of itself may let calls run side by side, never without permission.
        self.is_concurrent = described.reads_only
        self.described = described
        self._connection = connection

    def target(self, input: Json) -> str:
        """Return the arguments in one line."""
        text = ", ".join(f"{name}: {_encode(value)}" for name, value in input.items())
        return clean_line(text)[:_MAX_TARGET]

    def check(self, input: Json) -> None:
        """Raise an `InvalidToolCall` if the input does not follow the schema of the server."""
        problems = [*find_violations(input, self.input_schema, "input")]
        if problems:
            raise InvalidToolCall(f"InputValidationError: {self.name} failed: {'; '.join(problems[:5])}")

    def preview(self, input: Json, context: ToolContext, call_id: str) -> None:
        """Change no file that is known of."""

    async def run(self, input: Json, context: ToolContext, call_id: str) -> ToolOutcome:
        """Call the server."""
        server = self._connection.server
        head = {"type": "mcp_progress", "serverName": server.name, "toolName": self.described.own_name}
        reports = 0

        def report(fields: Json) -> None:
            nonlocal reports
            reports += 1
            if reports <= _MAX_PROGRESS:
                if isinstance(message := fields.get("progressMessage"), str):
                    fields["progressMessage"] = message[:_MAX_TARGET]
                context.report_progress(call_id, {**head, "status": "progress", **fields})

        def report_end(status: str) -> None:
            elapsed = round((time.monotonic() - began) * 1000)
            context.report_progress(call_id, {**head, "status": status, "elapsedTimeMs": elapsed})

        began = time.monotonic()
        context.report_progress(call_id, {**head, "status": "started"})
        files = ResultFiles(context, lambda: str(time.time_ns() // 1_000_000) + f"-{call_id[-6:]}")
        try:
            result = await self._connection.call_tool(self.described.own_name, input, report)
            outcome = make_outcome(server.name, self.described.own_name, result, files, context.environment)
        except ServerEnded as error:
            report_end("failed")
            raise ToolFailed(str(error)) from None
        except ToolFailed:
            report_end("failed")
            raise
        report_end("completed")
        return outcome


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode(errors="replace")[:_MAX_TARGET]
