"""Server-sent events: responses that go on while a page is open.

Rules
  1. An event's id is a position from which everything later can be sent again: a browser that was away sends it back
     (`Last-Event-ID`) and misses nothing.
  2. A stream sends a comment now and then, so that a lost connection is noticed at both ends.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import StreamingResponse

KEEPALIVE_SECONDS: Final = 15.0
"""After which a stream without news sends a comment."""


class ServerEvent(NamedTuple):
    """An event: its name, its data, and the position after it."""

    name: str
    data: Any
    position: str


def stream_events(events: AsyncIterator[ServerEvent | None]) -> StreamingResponse:
    """Return a response that sends events as they come; None is a keep-alive comment."""
    return StreamingResponse(_encode(events), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


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
