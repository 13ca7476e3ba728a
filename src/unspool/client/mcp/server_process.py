"""The process of an MCP server, which is spoken to on its stdin and stdout.

It is not started by the SDK: that would keep a line that never ends in memory, and print what the server
writes to stderr.

Rules
  1. A line on stdout that is no message is skipped: servers print what they should log. Only so many are.
  2. A server gets the environment of the chat without the keys of the API, and what its configuration adds.
  3. A server does not outlive its connection: first its stdin is closed, then its process group is ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from unspool.client.mcp.connection_end import MAX_BYTES, MAX_UNASKED, ConnectionEnd, TransportContext, run_quietly
from unspool.client.mcp.server_config import ServerConfig
from unspool.client.tools.shell.process import make_environment

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

_GRACE_SECONDS = 1.0
"""How long a process may take to end after its stdin was closed, and again after SIGTERM."""
_MAX_ERROR_LINE = 300


@asynccontextmanager
async def open_process(
    server: ServerConfig, context: TransportContext, end: ConnectionEnd
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[SessionMessage], MemoryObjectSendStream[SessionMessage]]]:
    """Start a server, and yield the stream of its messages and the stream for ours."""
    import anyio

    process = await _ServerProcess.start(server, context, end)
    to_session, receive = anyio.create_memory_object_stream["SessionMessage"](0)
    send, from_session = anyio.create_memory_object_stream["SessionMessage"](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run_quietly, partial(process.read, to_session))
            group.start_soon(run_quietly, partial(process.write, from_session))
            group.start_soon(run_quietly, process.read_errors)
            try:
                yield receive, send
            finally:
                group.cancel_scope.cancel()
                for stream in (receive, send, to_session, from_session):
                    stream.close()
    finally:
        # Shielded: whoever cancels the connection does not want to keep its process.
        await asyncio.shield(process.stop())


class _ServerProcess:
    """A process with its pipes."""

    def __init__(self, process: asyncio.subprocess.Process, end: ConnectionEnd) -> None:
        self._process, self._end = process, end
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr

    @classmethod
    async def start(cls, server: ServerConfig, context: TransportContext, end: ConnectionEnd) -> _ServerProcess:
        """Start the process in a group of its own."""
        process = await asyncio.create_subprocess_exec(
            server.command,
            *server.arguments,
            env={**make_environment(context.environment), **server.variables},
            cwd=context.root,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=MAX_BYTES,
        )
        return cls(process, end)

    async def read(self, to_session: MemoryObjectSendStream[SessionMessage]) -> None:
        """Forward what the server sends, until it ends."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        skipped = 0
        async with to_session:
            while line := await self._read_line():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except (ValueError, RecursionError):
                    skipped += 1
                    if skipped > MAX_UNASKED:
                        self._end.end(f"it printed more than {MAX_UNASKED:,} lines that are no messages")
                        return
                    await asyncio.sleep(0)  # a flood of such lines must not stop the chat
                    continue
                await to_session.send(SessionMessage(message))
            # Before the stream is closed: whoever sees that looks for the reason. The pipe closes a moment before the
            # exit code is known.
            await self._wait_for_exit()
            code = self._process.returncode
            self._end.end("it closed its output" if code is None else f"it ended with exit code {code}")

    async def write(self, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send what the session says."""
        async with from_session:
            async for message in from_session:
                self._stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await self._stdin.drain()

    async def read_errors(self) -> None:
        """Keep the last lines that the server writes to stderr."""
        while chunk := await self._stderr.read(65_536):
            lines = chunk.decode(errors="replace").splitlines()[-5:]
            self._end.errors.extend(line[:_MAX_ERROR_LINE] for line in lines)

    async def stop(self) -> None:
        """End the process and all that it started."""
        self._stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            await self._wait_for_exit()
            # The group, also where the server has ended by itself: what it started may still run.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
        await self._wait_for_exit()
        # Without it, a child that holds the pipes would leave the transport open.
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()

    async def _read_line(self) -> bytes:
        """Return the next line; empty at the end, and after a line that is too long."""
        try:
            return await self._stdout.readline()
        except ValueError:  # longer than the limit of the reader
            self._end.end(f"it sent a line of more than {MAX_BYTES // 1024**2} MB")
            return b""

    async def _wait_for_exit(self) -> None:
        """Wait until the process has ended, at most a moment."""
        # Not `wait`: that waits for the pipes too, which a child of the server may hold open.
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                while self._process.returncode is None:
                    await asyncio.sleep(0.01)
