"""News as they come: server-sent events.

Rules
  1. An event's id is a position from which everything later can be told again: a browser that was away sends it back
     (`Last-Event-ID`) and misses nothing.
  2. A stream says something now and then, so that a connection that has gone is noticed at both ends.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import StreamingResponse

PATIENCE: Final = 15.0
"""Seconds after which a stream says that it is still there."""


class News(NamedTuple):
    """An event: its name, what it tells, and the position after it."""

    name: str
    data: Any
    position: str


def stream(news: AsyncIterator[News | None]) -> StreamingResponse:
    """Return an answer that goes on; None is a sign of life."""
    return StreamingResponse(_written(news), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def position(request: Request) -> str:
    """Return where a browser wants to go on: what it saw last, else what its page was made at."""
    return request.headers.get("last-event-id") or request.query_params.get("from") or ""


async def _written(news: AsyncIterator[News | None]) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    async for one in news:
        yield b": still here\n\n" if one is None else _event(one)


def _event(news: News) -> bytes:
    """Return an event as it is sent. JSON has no line ends of its own, so that one line of data is enough."""
    data = json.dumps(news.data, ensure_ascii=False, separators=(",", ":"))
    return f"id: {news.position}\nevent: {news.name}\ndata: {data}\n\n".encode("utf-8", "replace")
