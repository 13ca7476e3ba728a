"""A real `unspool mcp` as a process, asked by the client of the official SDK."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from unspool.mcp_server.answer import estimate_tokens

T = TypeVar("T")


class Told(NamedTuple):
    """The text of an answer, and whether the call failed."""

    text: str
    failed: bool = False

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.text)

    @property
    def inside(self) -> str:
        """What stands between the marks; the marks must be there, once, and the closing one must be the only one."""
        head, opening, rest = self.text.partition("<transcript-")
        number = rest[:16]
        assert opening, self.text
        assert int(number, 16) >= 0
        inside, closing, after = rest.removeprefix(f"{number}>\n").partition(f"</transcript-{number}>")
        assert closing, self.text
        assert f"transcript-{number}" not in head + inside + after
        assert "<transcript-" not in inside.lower() + after.lower()
        assert "</transcript-" not in inside.lower() + after.lower()
        return inside


def run_client(config: Path | str, own: Path, use: Callable[[ClientSession], Awaitable[T]], *options: str) -> T:
    """Start the server, let a function ask it, and return what that returns."""

    async def run() -> T:
        command = ["-m", "unspool", "mcp", "--config-dir", str(config), *options]
        environment = {"UNSPOOL_HOME": str(own), "PATH": os.environ["PATH"], "HOME": str(own.parent), "TZ": "UTC"}
        server = StdioServerParameters(command=sys.executable, args=command, env=environment)
        with tempfile.TemporaryFile("w+") as words:
            async with stdio_client(server, words) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                return await use(session)

    return anyio.run(run)


async def call(session: ClientSession, tool: str, /, **arguments: Any) -> Told:
    """Call a tool."""
    result = await session.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    return Told(content.text, bool(result.is_error))


def ask(config: Path | str, own: Path, *calls: tuple[str, dict[str, Any]], options: tuple[str, ...] = ()) -> list[Told]:
    """Ask one after the other, and return the answers."""

    async def use(session: ClientSession) -> list[Told]:
        return [await call(session, tool, **arguments) for tool, arguments in calls]

    return run_client(config, own, use, *options)
