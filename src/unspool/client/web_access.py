"""The way out of a conversation: pages of the web, and the model asked beside the conversation about them.

Rules
  1. A page that was fetched is good for a quarter of an hour. `http:` is asked for as `https:`.
  2. What is asked here is no part of the conversation; what it cost is told (`billed`).
  3. Where an endpoint cannot search, nobody makes up what would have been found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from unspool.api.accumulator import Answer, Assembly
from unspool.api.events import BlockEnded
from unspool.api.web_fetch import Fetcher, Page
from unspool.client.protocols import Model
from unspool.client.tool_context import Search
from unspool.errors import ApiFailed

Json: TypeAlias = dict[str, Any]
Billed: TypeAlias = Callable[[str, Json], None]

LONGEST_PAGE = 100_000
_FRESH = 15 * 60
_KEPT = 20
_ANSWER_TOKENS = 4096
_TURNS = 5
_UNABLE = frozenset({400, 403, 404, 422, 501})


class Online:
    """Who fetches, asks and searches for one conversation and its agents."""

    def __init__(self, model: Model, name: Callable[[], str], environment: Mapping[str, str]) -> None:
        self.longest = LONGEST_PAGE
        """Characters of a page that a model can be asked about: less, if its window is small."""
        self.billed: Billed = _nobody
        """Called with a model and the usage of an answer."""
        self.fetcher = Fetcher(environment)
        self.clock = time.monotonic
        self._model = model
        self._name = name
        self._small = environment.get("ANTHROPIC_SMALL_FAST_MODEL") or environment.get("ANTHROPIC_DEFAULT_HAIKU_MODEL")
        self._pages: dict[str, tuple[float, Page]] = {}

    async def fetch(self, url: str) -> Page:
        """Return a page, as it was within a quarter of an hour."""
        url = self._secure(url)
        found = self._pages.get(url)
        if found is not None and self.clock() - found[0] < _FRESH:
            return found[1]
        page = await self.fetcher.get(url)
        self._pages.pop(url, None)
        if page.status < 400:
            self._pages[url] = (self.clock(), page)
            while len(self._pages) > _KEPT:
                del self._pages[next(iter(self._pages))]
        return page

    async def ask(self, prompt: str) -> str:
        """Ask the small model that the environment names, else the one of the conversation."""
        body = {"max_tokens": _ANSWER_TOKENS, "messages": [{"role": "user", "content": prompt}]}
        answer = await self._answer({"model": self._small or self._name(), **body})
        if answer.broken and not answer.text:
            raise ApiFailed(f"the model did not answer: {answer.broken}")
        return answer.text

    async def search(self, search: Search, notice: Callable[[Json], None]) -> list[Json] | None:
        """Have the server search; what it does meanwhile is told in the words of progress lines."""
        tool: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
        if search.allowed:
            tool["allowed_domains"] = [*search.allowed]
        if search.blocked:
            tool["blocked_domains"] = [*search.blocked]
        words = f"Search the web for: {search.query}\n\nThen sum up in a few sentences what was found."
        messages: list[Json] = [{"role": "user", "content": words}]
        body: Json = {"model": self._name(), "max_tokens": _ANSWER_TOKENS, "tools": [tool]}
        found: list[Json] = []
        for _ in range(_TURNS):
            try:
                answer = await self._answer({**body, "messages": messages}, notice)
            except ApiFailed as failed:
                if failed.status in _UNABLE:
                    return None
                raise
            found += answer.content
            if answer.stop_reason != "pause_turn":
                break
            messages = [messages[0], {"role": "assistant", "content": found}]
        has_searched = any(block.get("type") == "web_search_tool_result" for block in found)
        return found if has_searched else None

    async def _answer(self, body: Json, notice: Callable[[Json], None] | None = None) -> Answer:
        assembly = Assembly()
        told = 0
        async with aclosing(self._model.events(body)) as events:
            async for event in events:
                assembly.add(event)
                if notice is not None and isinstance(event, BlockEnded):
                    content = assembly.answer().content
                    for block in content[told:]:
                        _tell(block, content, notice)
                    told = len(content)
        answer = assembly.answer()
        self.billed(answer.model or str(body["model"]), answer.usage)
        return answer

    def _secure(self, url: str) -> str:
        """Return an address with `https:`, but for a host that a person has named."""
        parts = urlsplit(url)
        if parts.scheme.lower() != "http" or self.fetcher.is_exception(parts.hostname or "", parts.port or 80):
            return url
        return parts._replace(scheme="https").geturl()


def _tell(block: Json, content: tuple[Json, ...], notice: Callable[[Json], None]) -> None:
    """Tell of a search that has begun, or come back."""
    if block.get("type") == "server_tool_use":
        notice({"type": "query_update", "query": _query(block)})
    if block.get("type") == "web_search_tool_result":
        hits = block.get("content")
        asked = next((one for one in content if one.get("id") == block.get("tool_use_id")), {})
        count = len(hits) if isinstance(hits, list) else 0
        notice({"type": "search_results_received", "resultCount": count, "query": _query(asked)})


def _query(block: Json) -> str:
    given = block.get("input")
    return str(given.get("query", "")) if isinstance(given, dict) else ""


def _nobody(model: str, usage: Json) -> None:
    """Tell nobody."""
