"""Defers the tools of MCP servers where their list is long: the model gets their names, and loads those it needs.

As in Claude Code, a tool `ToolSearch` finds deferred tools by name or by words. What it found is on disk as blocks
`tool_reference`; in a request the reference is a text, and the definition of the tool stands among the others from then
on. So every endpoint can be used: none has to know references.

Rules
  1. Lists of up to 1,500 tokens are sent as they are: a search costs a request. `ENABLE_TOOL_SEARCH` changes that:
     `true` always defers, `false` never, `auto:N` from N percent of the context window on.
  2. Once deferred, always deferred, and a tool that was loaded stays loaded, in its place: the start of a request is
     cached.
  3. Names are listed up to a bound. Beyond it servers are named, with how many tools each has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from unspool.client.mcp.resource_tools import ListResourcesTool, ReadResourceTool
from unspool.client.mcp.server_tool import ServerTool
from unspool.client.mcp.servers import McpServers
from unspool.client.mcp.tool_references import find_references
from unspool.client.tool import Tool
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import Json, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments
from unspool.client.tools.registry import tool_definitions
from unspool.prices import estimate_request_tokens

NAME = "ToolSearch"
MAX_DIRECT_TOKENS = 1_500
"""Definitions that are sent without a search."""
_MAX_NAME_CHARACTERS = 4_000
_MAX_RESULTS = 5
_MOST_RESULTS = 50
_NO_MATCH = "No matching deferred tools found"
_WORDS = re.compile(r"[^\W_]+")


class ToolSearchArguments(ToolArguments, frozen=True):
    """Find deferred tools."""

    query: str
    max_results: int = _MAX_RESULTS


class ToolSearchTool(BuiltInTool[ToolSearchArguments]):
    """Loads deferred tools."""

    name = NAME
    description = ""
    arguments = ToolSearchArguments
    is_concurrent = True
    target_fields = ("query",)

    def __init__(self, deferred: Sequence[ServerTool], load: Callable[[Iterable[str]], None]) -> None:
        super().__init__()
        self._deferred, self._load = deferred, load
        self.description = (
            "Loads tools of MCP servers, so that they can be called. Until a tool is loaded only its name is known. "
            'Queries: "select:NAME,NAME" loads tools by name; other words search names and descriptions; "+word" must '
            f"be in the name. Tools that can be loaded:\n{list_names([tool.name for tool in deferred])}"
        )

    async def execute(self, arguments: ToolSearchArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Find tools and load them."""
        most = max(1, min(arguments.max_results, _MOST_RESULTS))
        found = find_tools(arguments.query, self._deferred, most)
        self._load(found)
        result = {"matches": found, "query": arguments.query, "total_deferred_tools": len(self._deferred)}
        content = [{"type": "tool_reference", "tool_name": name} for name in found]
        return ToolOutcome(content=content or _NO_MATCH, result=result)


class OfferedTools:
    """The tools of MCP servers that one agent is offered."""

    def __init__(
        self,
        servers: McpServers,
        *,
        is_allowed: Callable[[str], bool],
        is_denied: Callable[[str], bool] = lambda tool: False,
        environment: Mapping[str, str],
        window: Callable[[], int],
    ) -> None:
        self._servers, self._is_allowed, self._window = servers, is_allowed, window
        self._is_denied = is_denied
        self._mode = environment.get("ENABLE_TOOL_SEARCH", "").lower()
        self._is_deferring = False
        self._loaded: dict[str, None] = {}
        self._search: ToolSearchTool | None = None
        self._listed: tuple[str, ...] = ()

    def offered(self, messages: Iterable[Json] = ()) -> tuple[Tool, ...]:
        """Return the tools of the next request, whose messages may name tools that were loaded before a resume."""
        if not self._servers:
            return ()
        tools = [tool for tool in self._servers.tools() if self._is_allowed(tool.name)]
        more: list[Tool] = []
        if self._servers.has_resources():
            more = [tool for tool in self._resource_tools() if self._is_allowed(tool.name)]
        if not self._must_defer(tools):
            return (*more, *tools)
        self._load(find_references(messages))
        by_name = {tool.name: tool for tool in tools}
        always = [tool for tool in tools if tool.described.always_loaded]
        deferred = [tool for tool in tools if not tool.described.always_loaded]
        loaded = [by_name[name] for name in self._loaded if name in by_name and by_name[name] not in always]
        return (*more, self._search_tool(deferred), *always, *loaded)

    def find(self, name: str) -> Tool | None:
        """Return a tool by its name, also one that was not loaded: a model may know it from before."""
        if not self._servers:
            return None
        found = next((tool for tool in self.offered() if tool.name == name), None)
        if found is None and self._is_allowed(name):
            found = next((tool for tool in self._servers.tools() if tool.name == name), None)
            if found is not None:
                self._load([name])
        return found

    def _resource_tools(self) -> tuple[Tool, ...]:
        return (ListResourcesTool(self._servers, self._is_denied), ReadResourceTool(self._servers))

    def _load(self, names: Iterable[str]) -> None:
        self._loaded.update(dict.fromkeys(names))

    def _must_defer(self, tools: Sequence[ServerTool]) -> bool:
        if self._mode == "false" or not tools:
            return False
        if not self._is_deferring:
            self._is_deferring = self._mode == "true" or self._count(tools) > self._most_direct_tokens()
        return self._is_deferring

    def _count(self, tools: Sequence[ServerTool]) -> int:
        return estimate_request_tokens({"tools": tool_definitions(tools)})

    def _most_direct_tokens(self) -> int:
        if not self._mode.startswith("auto"):
            return MAX_DIRECT_TOKENS
        percent = self._mode.partition(":")[2]
        share = min(100, int(percent)) if percent.isascii() and percent.isdigit() and len(percent) <= 3 else 10
        return self._window() * share // 100

    def _search_tool(self, deferred: Sequence[ServerTool]) -> ToolSearchTool:
        names = tuple(tool.name for tool in deferred)
        if self._search is None or names != self._listed:
            self._search, self._listed = ToolSearchTool(deferred, self._load), names
        return self._search


def find_tools(query: str, tools: Sequence[ServerTool], most: int) -> list[str]:
    """Return the names of tools that a query means, the best first."""
    wanted = query.strip()
    by_name = {tool.name.lower(): tool.name for tool in tools}
    if wanted.lower().startswith("select:"):
        names = [name.strip().lower() for name in wanted[len("select:") :].split(",")]
        return [*dict.fromkeys(by_name[name] for name in names if name in by_name)][:_MOST_RESULTS]
    if wanted.lower() in by_name:
        return [by_name[wanted.lower()]]
    if wanted.lower().startswith("mcp__") and (
        starting := [name for lowered, name in by_name.items() if lowered.startswith(wanted.lower())]
    ):
        return starting[:most]
    terms = wanted.lower().split()[:50]
    required = [term[1:] for term in terms if term.startswith("+") and len(term) > 1]
    words = [word for term in terms for word in _WORDS.findall(term)]
    scored = [
        (score_tool(tool, words), tool.name) for tool in tools if all(part in tool.name.lower() for part in required)
    ]
    ranked = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])
    return [name for _, name in ranked[:most]]


def score_tool(tool: ServerTool, words: Iterable[str]) -> int:
    """Return how well a tool fits words; 0: not at all."""
    parts = _WORDS.findall(tool.name.removeprefix("mcp__").lower())
    described = {*_WORDS.findall(tool.description.lower())}
    score = 0
    for word in words:
        if word in parts:
            score += 12
        elif any(word in part for part in parts):
            score += 6
        if word in described:
            score += 2
    return score


def list_names(names: Sequence[str]) -> str:
    """Return names of tools, one in a line; where there are too many, each server with a number."""
    listed = "\n".join(names)
    if len(listed) <= _MAX_NAME_CHARACTERS:
        return listed
    counts = Counter(name.split("__")[1] for name in names)
    lines = [f"mcp__{server}__* ({count} tools)" for server, count in counts.items()]
    return "\n".join(lines)[:_MAX_NAME_CHARACTERS]
