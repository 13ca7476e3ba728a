"""Calls a tool of an MCP server on an event: a hook of the type `mcp_tool`.

Rules
  1. The text of the result is read like the output of a command: JSON is an answer, and other text is none that the
     model is told. A server that is not connected, a result that is an error and a call that takes too long are no
     answer. Claude Code 2.1.327 has the same rules, but there no answer blocks nothing (measured).
  2. In `input`, `${tool_input.file_path}` is replaced by a value of the event: a text as it is, others as JSON, nothing
     where there is none.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from unspool.client.hooks.answers import HookCall, HookReply, parse_output
from unspool.client.tool_result import Json
from unspool.errors import UnspoolError
from unspool.format import replace_surrogates

CallServerTool: TypeAlias = Callable[[str, str, Json], Awaitable[Json]]
"""Called with a server, the server's own name of a tool and its input; returns the result as MCP has it."""

_MAX_SHOWN = 300
_MAX_OUTPUT = 1 << 20
_MAX_DEPTH = 20
_PLACE = re.compile(r"\$\{([^{}]{1,200})\}")


class ServerToolHook:
    """A tool of an MCP server that is called on an event."""

    def __init__(self, server: str, tool: str, input: Json, timeout: float, call_tool: CallServerTool) -> None:
        self.label = f"{server}/{tool}"
        self.timeout = timeout
        self._server, self._tool, self._input = server, tool, input
        self._call_tool = call_tool

    async def call(self, call: HookCall) -> HookReply:
        """Call the tool, and return what it answers."""
        # Imported here: a hook alone does not load the parts of MCP.
        from unspool.client.mcp.connection_end import ServerEnded

        began = time.monotonic()
        try:
            async with asyncio.timeout(self.timeout):
                result = await self._call_tool(
                    self._server, self._tool, fill_input(self._input, replace_surrogates(call.input))
                )
            reply = _parse_result(call.event, result)
        except TimeoutError:
            reply = HookReply(failure=f"it did not answer within {self.timeout:g} s", timed_out=True)
        except ServerEnded as error:
            reply = HookReply(failure=str(error)[:_MAX_SHOWN])
        except UnspoolError as error:  # there is no such server
            reply = HookReply(failure=error.message[:_MAX_SHOWN])
        return reply._replace(milliseconds=round((time.monotonic() - began) * 1000))


def fill_input(input: Any, event: Json, depth: int = 0) -> Any:
    """Return the input of a tool with the values of an event in place of `${…}`."""
    match input:
        case str():
            return _PLACE.sub(lambda found: _as_text(_find_value(event, found[1])), input)
        case dict() if depth < _MAX_DEPTH:
            return {name: fill_input(value, event, depth + 1) for name, value in input.items()}
        case list() if depth < _MAX_DEPTH:
            return [fill_input(value, event, depth + 1) for value in input]
        case _:
            return input


def _find_value(event: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(event, Mapping):
            event = event.get(name)
        elif isinstance(event, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(event):
            event = event[int(name[:9])]
        else:
            return None
    return event


def _as_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return msgspec.json.encode(value).decode()


def _parse_result(event: str, result: Json) -> HookReply:
    """Return the answer that the result of a tool is."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    text = "\n".join(str(block.get("text")) for block in blocks if isinstance(block, dict) and block.get("text"))
    reply = HookReply(stdout=text[:_MAX_OUTPUT], exit_code=0, is_told=False)
    if result.get("isError") is True:
        shown = " ".join(text.split())[:_MAX_SHOWN]
        return reply._replace(failure=f"the tool failed: {shown or 'it does not say why'}", exit_code=1)
    return parse_output(event, reply, text.strip()) if text.lstrip().startswith("{") else reply
