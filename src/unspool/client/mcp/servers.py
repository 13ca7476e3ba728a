"""All MCP servers of a chat: starts and stops them together, and finds their tools, prompts and resources by name.

Nothing here imports the SDK: a chat without servers does not load it.

Rules
  1. Servers start side by side. A turn waits until each has started or failed; in a terminal, Esc ends the wait.
  2. What is wrong with a server is one line, and said once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from unspool.client.mcp.config_files import McpConfiguration
from unspool.client.mcp.server_config import ServerConfig
from unspool.client.tool import normalize_name
from unspool.client.tool_result import Json
from unspool.display import clean_line
from unspool.errors import NotFound, Refused

if TYPE_CHECKING:
    from unspool.client.mcp.connection import ServerConnection, Status
    from unspool.client.mcp.connection_end import TransportContext
    from unspool.client.mcp.offers import PromptDescription, ResourceDescription
    from unspool.client.mcp.server_tool import ServerTool

_MAX_INSTRUCTIONS = 2_048
"""Characters of the instructions of one server, as in Claude Code."""


class ServerState(NamedTuple):
    """One server, for people and programs to look at."""

    server: ServerConfig
    status: Status
    problem: str
    tools: tuple[str, ...]
    prompts: int
    resources: int
    version: dict[str, str]


class McpServers:
    """The servers of one chat."""

    def __init__(self, configuration: McpConfiguration | None = None, context: TransportContext | None = None) -> None:
        configured = configuration or McpConfiguration()
        self.pending = configured.pending
        """Servers of `.mcp.json` that nobody has approved."""
        self._context = context
        self._connections: dict[str, ServerConnection] = {}
        self._tools: dict[str, tuple[object, ServerTool]] = {}
        """By name, with the description that each was made of."""
        self._told: set[str] = set()
        if configured.servers and context is not None:
            from unspool.client.mcp.connection import ServerConnection

            self._connections = {server.key: ServerConnection(server, context) for server in configured.servers}

    def __bool__(self) -> bool:
        return bool(self._connections)

    def start(self) -> None:
        """Begin to connect to all servers."""
        for connection in self._connections.values():
            connection.start()

    async def wait_started(self, seconds: float | None = None) -> None:
        """Wait until each server has started or failed, at most so many seconds."""
        if self._connections:
            waits = [asyncio.ensure_future(connection.wait_settled()) for connection in self._connections.values()]
            _, late = await asyncio.wait(waits, timeout=seconds)
            for wait in late:
                wait.cancel()

    def pending_names(self) -> str:
        """Return the names of the servers that still start, in one line."""
        return clean_line(
            ", ".join(
                connection.server.name for connection in self._connections.values() if connection.status == "pending"
            )
        )

    async def close(self) -> None:
        """Disconnect from all servers."""
        stopping = [asyncio.ensure_future(connection.stop()) for connection in self._connections.values()]
        if stopping:
            await asyncio.wait(stopping)

    async def reconnect(self, name: str) -> None:
        """Connect to a server again; return when that has succeeded or failed."""
        await self._find(name).reconnect()

    async def sign_in(self, name: str, show_address: Callable[[str], None]) -> ServerState:
        """Sign in to a server, and connect to it; return its state when that has succeeded or failed."""
        from unspool.client.mcp.sign_in import can_sign_in

        connection = self._find(name)
        if not can_sign_in(connection.server):
            raise Refused(
                f"the MCP server `{connection.server.name}` has no sign-in", hint="only http and sse servers do"
            )
        await connection.reconnect(show_address)
        return next(state for state in self.states() if state.server is connection.server)

    async def disable(self, name: str) -> None:
        """Disconnect from a server for the rest of the session."""
        await self._find(name).stop()

    def states(self) -> list[ServerState]:
        """Return all servers with their state."""
        return [
            ServerState(
                connection.server,
                connection.status,
                connection.problem,
                tuple(tool.name for tool in connection.offers.tools),
                len(connection.offers.prompts),
                len(connection.offers.resources),
                connection.offers.version,
            )
            for connection in self._connections.values()
        ]

    def take_problems(self) -> list[str]:
        """Return what went wrong with servers and was not returned before."""
        found = []
        for connection in self._connections.values():
            if connection.status in ("failed", "needs-auth"):
                found.append(f"MCP server `{connection.server.name}` is not connected: {connection.problem}")
            found += connection.offers.problems
        fresh = [problem for problem in dict.fromkeys(found) if problem not in self._told]
        self._told.update(fresh)
        return fresh

    def tools(self) -> list[ServerTool]:
        """Return the tools of all servers, in a fixed order: a request is cached from its start."""
        if not self._connections:
            return []
        from unspool.client.mcp.server_tool import ServerTool

        found = []
        for connection in self._connections.values():
            if connection.status == "disabled":
                continue
            for described in connection.offers.tools:
                known = self._tools.get(described.name)
                if known is None or known[0] is not described:
                    known = self._tools[described.name] = (described, ServerTool(connection, described))
                found.append(known[1])
        return found

    def instructions(self) -> str:
        """Return what servers say about their use, for the system prompt; empty if none does."""
        blocks = [
            f"## {connection.server.name}\n{connection.offers.instructions.strip()[:_MAX_INSTRUCTIONS]}"
            for connection in self._connections.values()
            if connection.offers.instructions.strip() and connection.status != "disabled"
        ]
        if not blocks:
            return ""
        head = "The following MCP servers have provided instructions for how to use their tools and resources:"
        return "\n\n".join([f"# MCP Server Instructions\n\n{head}", *blocks])

    def prompts(self) -> dict[str, PromptDescription]:
        """Return the prompts of all servers, by the name that is typed."""
        return {prompt.name: prompt for connection in self._running() for prompt in connection.offers.prompts}

    def resources(self) -> list[tuple[str, ResourceDescription]]:
        """Return the resources of all servers, each with the name of its server."""
        return [
            (connection.server.name, resource)
            for connection in self._running()
            for resource in connection.offers.resources
        ]

    def has_resources(self) -> bool:
        """Return whether a server has resources."""
        return any(connection.offers.has_resources for connection in self._running())

    async def read_resource(self, server: str, uri: str) -> list[Json]:
        """Return the contents of a resource; a `ServerEnded` says why there are none."""
        return await self._find(server).read_resource(uri)

    async def call_tool(self, server: str, tool: str, input: Json) -> Json:
        """Call a tool by the server's own name of it; a `ServerEnded` says why there is no result."""
        return await self._find(server).call_tool(tool, input, lambda fields: None)

    async def get_prompt(self, name: str, words: list[str]) -> list[Json]:
        """Return the messages of a prompt, whose arguments are given in their order."""
        for connection in self._running():
            for prompt in connection.offers.prompts:
                if prompt.name == name:
                    return await connection.get_prompt(
                        prompt.own_name, dict(zip(prompt.arguments, words, strict=False))
                    )
        raise NotFound(f"no prompt `{name}`", hint="list the servers with `/mcp`")

    def _running(self) -> Iterator[ServerConnection]:
        return (connection for connection in self._connections.values() if connection.status != "disabled")

    def _find(self, name: str) -> ServerConnection:
        found = self._connections.get(normalize_name(name))
        if found is None:
            known = ", ".join(connection.server.name for connection in self._connections.values()) or "none"
            raise NotFound(f"no MCP server `{name}`", hint=f"there are: {known}")
        return found
