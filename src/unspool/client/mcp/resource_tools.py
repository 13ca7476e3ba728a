"""The tools ListMcpResourcesTool and ReadMcpResourceTool: the resources of MCP servers, for the model."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from unspool.client.mcp.connection_end import ServerEnded
from unspool.client.mcp.results import ResultFiles, bound_text, make_resource_blocks
from unspool.client.mcp.servers import McpServers
from unspool.client.tool import normalize_name
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import Json, ToolFailed, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments

_NOTHING = "No resources found. MCP servers may still provide tools even if they have no resources."


class ListResourcesArguments(ToolArguments, frozen=True):
    """List resources."""

    server: str | None = None


class ReadResourceArguments(ToolArguments, frozen=True):
    """Read a resource."""

    server: str
    uri: str


class ListResourcesTool(BuiltInTool[ListResourcesArguments]):
    """Lists resources."""

    name = "ListMcpResourcesTool"
    description = "Lists the resources of MCP servers, of one server if `server` is given."
    arguments = ListResourcesArguments
    is_concurrent = True
    target_fields = ("server",)

    def __init__(self, servers: McpServers, is_denied: Callable[[str], bool] = lambda tool: False) -> None:
        super().__init__()
        self._servers, self._is_denied = servers, is_denied

    async def execute(self, arguments: ListResourcesArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """List them."""
        found: list[Json] = [
            {
                "uri": resource.uri,
                "name": resource.name,
                **({"mimeType": resource.media_type} if resource.media_type else {}),
                **({"description": resource.description} if resource.description else {}),
                "server": server,
            }
            for server, resource in self._servers.resources()
            # Claude Code 2.1.327 lists those of a server that a rule denies, too.
            if arguments.server in (None, server) and not self._is_denied(f"mcp__{normalize_name(server)}__")
        ]
        text = bound_text(msgspec.json.encode(found).decode(), context.environment) if found else _NOTHING
        return ToolOutcome(content=text, result=found)


class ReadResourceTool(BuiltInTool[ReadResourceArguments]):
    """Reads a resource."""

    name = "ReadMcpResourceTool"
    description = "Reads a resource of an MCP server by its URI."
    arguments = ReadResourceArguments
    is_concurrent = True
    target_fields = ("uri",)

    def __init__(self, servers: McpServers) -> None:
        super().__init__()
        self._servers = servers

    async def execute(self, arguments: ReadResourceArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Read it."""
        text, contents = await read_resource(self._servers, arguments.server, arguments.uri, context)
        return ToolOutcome(content=text, result={"contents": contents})


async def read_resource(servers: McpServers, server: str, uri: str, context: ToolContext) -> tuple[str, list[Json]]:
    """Return the text of a resource, and its contents as Claude Code writes them; a `ToolFailed` if it has none."""
    files = ResultFiles(context, lambda: str(time.time_ns() // 1_000_000))
    try:
        contents = await servers.read_resource(server, uri)
    except ServerEnded as error:
        raise ToolFailed(str(error)) from None
    blocks = make_resource_blocks(server, contents, files)
    texts = [str(block.get("text", "(a picture)")) for block in blocks]
    text = bound_text("\n".join(texts) or "(The resource is empty.)", context.environment)
    kept: list[Json] = []
    for part, described in zip(contents, texts, strict=False):
        head = {"uri": str(part.get("uri") or uri), "mimeType": part.get("mimeType")}
        kept.append({**head, "text": bound_text(str(part.get("text", described)), context.environment)})
    return text, kept
