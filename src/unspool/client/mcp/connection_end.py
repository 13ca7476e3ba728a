"""What the transports of MCP servers share: bounds, what they run with, and why a connection ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    from unspool.client.mcp.elicitation import FormUser

    Streams: TypeAlias = tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
    ]

MAX_BYTES = 16 * 1024 * 1024
"""Of one message."""
MAX_UNASKED = 10_000
"""How many messages a server may send between two of ours."""
_KEPT_ERROR_LINES = 5
SendControl: TypeAlias = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a control request to the program at the other end, and returns its response; a `ServerEnded` if it fails."""


class ServerEnded(Exception):
    """The connection to a server is over; the text says why."""


class TransportContext(NamedTuple):
    """What transports need besides the configuration of a server."""

    environment: Mapping[str, str]
    root: Path
    send_control: SendControl | None = None
    """None: there is no program at the other end."""
    form_user: FormUser | None = None
    """Who answers the questions of servers; None: nobody."""


class ConnectionEnd:
    """Why and when a connection ended."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.reason = ""
        self.errors: deque[str] = deque(maxlen=_KEPT_ERROR_LINES)
        """The last lines that a process wrote to stderr."""
        self.http_status: int | None = None
        """The last status of an HTTP response that was an error."""

    def end(self, reason: str) -> None:
        """Say that the connection is over; the first reason counts."""
        self.reason = self.reason or reason
        self.event.set()


async def run_quietly(work: Callable[[], Awaitable[None]]) -> None:
    """Run a part of a transport until its streams are closed, by either end."""
    import anyio

    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError):
        await work()
