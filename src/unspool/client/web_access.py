"""Fetches web pages, searches the web, and asks a model about pages, beside the conversation.

Rules
  1. A page that was fetched is reused for a quarter of an hour. `http:` is fetched as `https:`.
  2. Requests to a model here are no part of the conversation; their usage is counted (`add_usage`).
  3. Where an endpoint has no search, no results are made up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from urllib.parse import urlsplit

from unspool.api import ApiResponse, BlockFinished, FetchedPage, PageFetcher, ResponseAccumulator
from unspool.client.protocols import Model
from unspool.client.tool_result import Json
from unspool.errors import ApiFailed

MAX_PAGE_CHARACTERS = 100_000
_CACHE_SECONDS = 15 * 60
_MAX_CACHED_PAGES = 20
_ANSWER_TOKENS = 4096
_MAX_SEARCH_REQUESTS = 5
"""A search that the server pauses (`pause_turn`) is continued so often at most."""
_NO_SEARCH_STATUSES = frozenset({400, 403, 404, 422, 501})


def small_model(environment: Mapping[str, str]) -> str | None:
    """Return the small model that the environment names; None: it names none."""
    return environment.get("ANTHROPIC_SMALL_FAST_MODEL") or environment.get("ANTHROPIC_DEFAULT_HAIKU_MODEL")


class WebClient:
    """The access of one session and its subagents to the web."""

    def __init__(
        self,
        model: Model,
        model_name: Callable[[], str],
        environment: Mapping[str, str],
        add_usage: Callable[[str | None, Json], object] = lambda model, usage: None,
    ) -> None:
        self.longest = MAX_PAGE_CHARACTERS
        self.fetcher = PageFetcher(environment)
        self.clock = time.monotonic
        self._model = model
        self._model_name = model_name
        self._add_usage = add_usage
        self._small_model = small_model(environment)
        self._pages: dict[str, tuple[float, FetchedPage]] = {}

    async def fetch(self, url: str) -> FetchedPage:
        """Return a page as it is now, or was within the last quarter of an hour."""
        url = self._use_https(url)
        cached = self._pages.get(url)
        if cached is not None and self.clock() - cached[0] < _CACHE_SECONDS:
            return cached[1]
        page = await self.fetcher.get(url)
        self._pages.pop(url, None)
        # An error is not cached: the next try may get the page.
        if page.status < 400:
            self._pages[url] = (self.clock(), page)
            while len(self._pages) > _MAX_CACHED_PAGES:
                del self._pages[next(iter(self._pages))]
        return page

    async def ask(self, prompt: str) -> str:
        """Ask the small model that the environment names, else the model of the session."""
        body = {"max_tokens": _ANSWER_TOKENS, "messages": [{"role": "user", "content": prompt}]}
        response = await self._request({"model": self._small_model or self._model_name(), **body})
        if response.broken and not response.text:
            raise ApiFailed(f"no response from the model: {response.broken}")
        return response.text

    async def search(self, query: str, sites: Json, notice: Callable[[Json], None]) -> list[Json] | None:
        """Let the server search, with its own names for the sites that it is limited to."""
        tool: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8, **sites}
        prompt = f"Search the web for: {query}\n\nThen sum up in a few sentences what was found."
        messages: list[Json] = [{"role": "user", "content": prompt}]
        body: Json = {"model": self._model_name(), "max_tokens": _ANSWER_TOKENS, "tools": [tool]}
        blocks: list[Json] = []
        for _ in range(_MAX_SEARCH_REQUESTS):
            try:
                response = await self._request({**body, "messages": messages}, notice)
            except ApiFailed as failed:
                if failed.status in _NO_SEARCH_STATUSES:
                    return None
                raise
            blocks += response.content
            if response.stop_reason != "pause_turn":
                break
            # A paused search is continued by sending back what came of it.
            messages = [messages[0], {"role": "assistant", "content": blocks}]
        has_searched = any(block.get("type") == "web_search_tool_result" for block in blocks)
        return blocks if has_searched else None

    async def _request(self, body: Json, notice: Callable[[Json], None] | None = None) -> ApiResponse:
        accumulator = ResponseAccumulator()
        noticed = 0
        async with aclosing(self._model.events(body)) as events:
            async for event in events:
                accumulator.add(event)
                if notice is not None and isinstance(event, BlockFinished):
                    content = accumulator.response().content
                    for block in content[noticed:]:
                        _notice_search(block, content, notice)
                    noticed = len(content)
        response = accumulator.response()
        self._add_usage(response.model or str(body["model"]), response.usage)
        return response

    def _use_https(self, url: str) -> str:
        """Return an address with `https:`, except for a host that the user has named in the environment."""
        parts = urlsplit(url)
        if parts.scheme.lower() != "http" or self.fetcher.is_exception(parts.hostname or "", parts.port or 80):
            return url
        return parts._replace(scheme="https").geturl()


def _notice_search(block: Json, content: tuple[Json, ...], notice: Callable[[Json], None]) -> None:
    """Report a search that has begun, or its results."""
    if block.get("type") == "server_tool_use":
        notice({"type": "query_update", "query": _query(block)})
    if block.get("type") == "web_search_tool_result":
        hits = block.get("content")
        call = next((other for other in content if other.get("id") == block.get("tool_use_id")), {})
        count = len(hits) if isinstance(hits, list) else 0
        notice({"type": "search_results_received", "resultCount": count, "query": _query(call)})


def _query(block: Json) -> str:
    input = block.get("input")
    return str(input.get("query", "")) if isinstance(input, dict) else ""
