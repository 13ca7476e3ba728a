"""The ways to a server: a process on stdin and stdout, streamable HTTP, SSE, and the control protocol of a program.

The SDK's sessions run on two streams of messages. HTTP and SSE are the SDK's own transports.

Rules
  1. Every way is bounded: a line or a body of at most 16 MB, and at most 10,000 messages that nobody asked for between
     two messages of ours. A server that sends more is cut off, and said to.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from unspool.client.mcp.connection_end import (
    MAX_BYTES,
    MAX_UNASKED,
    ConnectionEnd,
    ServerEnded,
    TransportContext,
    run_quietly,
)
from unspool.client.mcp.server_config import ServerConfig
from unspool.client.mcp.server_process import open_process

_BLANK_LINE = re.compile(rb"\n\n|\r\r|\r\n\r\n")

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

    from unspool.client.mcp.connection_end import Streams


@asynccontextmanager
async def open_transport(
    server: ServerConfig, context: TransportContext, end: ConnectionEnd, auth: httpx2.Auth | None = None
) -> AsyncIterator[Streams]:
    """Connect to a server, and yield the stream of its messages and the stream for ours."""
    if server.transport == "sdk":
        async with _open_control(server, context, end) as streams:
            yield streams
        return
    opened = _open_http(server, end, auth) if server.transport != "stdio" else open_process(server, context, end)
    async with opened as (receive, send), _MessageGuard(receive, send, end).open() as streams:
        yield streams


class _MessageGuard:
    """Forwards the messages of a server and ours, and ends the connection if the server sends too many."""

    def __init__(self, receive: Any, send: Any, end: ConnectionEnd) -> None:
        self._receive, self._send, self._end = receive, send, end
        self._unasked = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Streams]:
        """Yield the streams for a session."""
        import anyio

        to_session, from_server = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        to_server, from_session = anyio.create_memory_object_stream["SessionMessage"](0)
        async with anyio.create_task_group() as group:
            group.start_soon(run_quietly, partial(self._read, to_session))
            group.start_soon(run_quietly, partial(self._write, from_session))
            try:
                yield from_server, to_server
            finally:
                group.cancel_scope.cancel()
                for stream in (from_server, to_server, to_session, from_session):
                    stream.close()

    async def _read(self, to_session: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        async with to_session:
            async for message in self._receive:
                self._unasked += 1
                if self._unasked > MAX_UNASKED:
                    self._end.end(f"it sent more than {MAX_UNASKED:,} messages that nobody asked for")
                    return
                if not isinstance(message, Exception):  # what is no message is no reason to end
                    await to_session.send(message)
        self._end.end("")

    async def _write(self, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_session:
            async for message in from_session:
                self._unasked = 0
                await self._send.send(message)


@asynccontextmanager
async def _open_http(
    server: ServerConfig, end: ConnectionEnd, auth: httpx2.Auth | None
) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to a server over HTTP, with what signs its requests."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async def note_status(response: httpx2.Response) -> None:
        # A server without a stream of its own refuses to open one: that is no error.
        if (response.status_code >= 400 and response.request.method == "POST") or server.transport == "sse":
            end.http_status = response.status_code if response.status_code >= 400 else None

    signing = auth

    async def check_address(request: httpx2.Request) -> None:
        from unspool.client.mcp.sign_in import check_request

        await check_request(request, server)

    def make_client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        client = create_mcp_http_client(headers=headers, timeout=timeout, auth=signing)
        client.headers["accept-encoding"] = "identity"
        checks = [] if signing is None else [check_address]
        client.event_hooks = {"request": checks, "response": [note_status, _bound_body]}
        return client

    if server.transport == "sse":
        async with sse_client(server.url, headers=server.headers, httpx_client_factory=make_client) as streams:
            yield streams[0], streams[1]
        return
    async with (
        make_client(server.headers) as client,
        streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams[0], streams[1]


async def _bound_body(response: httpx2.Response) -> None:
    """Let the body of a response end with an error where it, or one event of a stream of events, gets too long."""
    import httpx2

    if response.headers.get("content-encoding", "identity") != "identity":
        # It was not asked for, and 16 MB of it can unpack to gigabytes.
        raise httpx2.DecodingError("a compressed response", request=response.request)
    is_stream = "text/event-stream" in response.headers.get("content-type", "")
    inner = response.stream

    class BoundedBody(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size, last = 0, b""
            async for chunk in inner:  # type: ignore[union-attr]
                size += len(chunk)
                if size > MAX_BYTES:
                    raise httpx2.ReadError(f"a response of more than {MAX_BYTES // 1024**2} MB")
                if is_stream and _BLANK_LINE.search(last + chunk):  # an event has ended
                    size = len(chunk)
                last = (last + chunk)[-3:]
                yield chunk

        async def aclose(self) -> None:
            await inner.aclose()  # type: ignore[union-attr]

    response.stream = BoundedBody()


@asynccontextmanager
async def _open_control(server: ServerConfig, context: TransportContext, end: ConnectionEnd) -> AsyncIterator[Streams]:
    """Connect to a server inside the program at the other end: each message is a control request `mcp_message`."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    if context.send_control is None:
        raise ServerEnded("no program is at the other end, which would have it")
    ask = context.send_control
    to_session, receive = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    send, from_session = anyio.create_memory_object_stream["SessionMessage"](0)

    async def deliver(message: dict[str, Any]) -> None:
        try:
            response = await ask({"subtype": "mcp_message", "server_name": server.name, "message": message})
        except ServerEnded as error:
            end.end(str(error))
            return
        answer = response.get("mcp_response")
        if "id" not in message or not isinstance(answer, dict):
            return  # a notification has no answer
        with suppress(ValueError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            await to_session.send(SessionMessage(jsonrpc_message_adapter.validate_python(answer, by_name=False)))

    async def forward() -> None:
        async with from_session:
            async for message in from_session:
                group.start_soon(deliver, message.message.model_dump(by_alias=True, exclude_unset=True, mode="json"))

    async with anyio.create_task_group() as group:
        group.start_soon(forward)
        try:
            yield receive, send
        finally:
            group.cancel_scope.cancel()
            for stream in (receive, send, to_session, from_session):
                stream.close()
