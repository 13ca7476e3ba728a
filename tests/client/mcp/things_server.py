"""A server of the SDK with a tool for each kind of result, on stdin and stdout or over HTTP, which tests start."""

from __future__ import annotations

import os
import socket
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
server: MCPServer[Any] = MCPServer("things", instructions="Add small numbers only.")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def draw() -> Image:
    """Draw a dot."""
    return Image(data=b64decode(DOT), format="png")


@server.tool()
def repeat(word: str, times: int) -> list[str]:
    """Repeat a word."""
    return [word * times]


@server.tool()
def variable(name: str) -> str:
    """Return a variable of the environment."""
    return os.environ.get(name, "not set")


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


@server.tool()
async def advance(ctx: Context[Any, Any]) -> str:
    """Report progress."""
    await ctx.report_progress(1, 2, "half")
    return "all"


@server.resource("note://milk")
def milk() -> str:
    """Return a note."""
    return "Remember the milk."


@server.prompt()
def greet(name: str, manner: str = "kindly") -> str:
    """Greet somebody."""
    return f"Greet {name} {manner}."


def main() -> None:
    if sys.argv[1:] == []:
        server.run()
        return
    transport, port_file = sys.argv[1:]
    note = Path(port_file)
    if not note.exists():  # one that is started again takes the same port
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            note.write_text(str(free.getsockname()[1]))
    port = int(note.read_text())
    if transport == "sse":
        server.run("sse", host="127.0.0.1", port=port)
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
