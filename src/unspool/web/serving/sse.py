"""Server-sent events: responses that go on while a page is open.

Rules
  1. An event's id is a position from which everything later can be sent again: a browser that was away sends it back
     (`Last-Event-ID`) and misses nothing.
  2. A stream sends a comment now and then, so that a lost connection is noticed at both ends.
  3. There are at most so many streams at once: each holds a connection for as long as a page is open.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

KEEPALIVE_SECONDS: Final = 15.0
"""After which a stream without news sends a comment."""
HEARTBEAT_SECONDS: Final = 5.0
"""The same for pages that say when they have lost their server (`static/connection.js`)."""
MAX_STREAMS: Final = 16
"""That are open at once. A browser has at most six connections to one server, and pages that are hidden have none."""


class ServerEvent(NamedTuple):
    """An event: its name, its data, and the position after it."""

    name: str
    data: Any
    position: str


class StreamCounter:
    """Counts the streams that are open."""

    def __init__(self) -> None:
        self.count = 0


class _EventStream(StreamingResponse):
    """A response that sends events for as long as the browser listens, unless there are too many of them."""

    def __init__(self, events: AsyncIterator[ServerEvent | None], counter: StreamCounter) -> None:
        super().__init__(_encode(events), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._counter = counter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Here, not where the response is made: that is in a thread, and what is made need not be sent.
        if self._counter.count >= MAX_STREAMS:
            words = "503: too many open pages with live updates; close one\n"
            await PlainTextResponse(words, 503, {"retry-after": "10"})(scope, receive, send)
            return
        self._counter.count += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._counter.count -= 1


def stream_events(events: AsyncIterator[ServerEvent | None], counter: StreamCounter) -> StreamingResponse:
    """Return a response that sends events as they come; None is a keep-alive comment."""
    return _EventStream(events, counter)


def resume_position(request: Request) -> str:
    """Return the position that a browser has: of the event it saw last, else of its page."""
    return request.headers.get("last-event-id") or request.query_params.get("from") or ""


async def _encode(events: AsyncIterator[ServerEvent | None]) -> AsyncIterator[bytes]:
    # A browser waits three seconds and more before it connects again, unless it is told otherwise.
    yield b"retry: 1000\n\n"
    async for event in events:
        if event is None:
            yield b": still here\n\n"
            continue
        # JSON has no line ends of its own, so that one line of data is enough.
        data = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
        yield f"id: {event.position}\nevent: {event.name}\ndata: {data}\n\n".encode("utf-8", "replace")
