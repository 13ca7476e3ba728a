"""Talks to the Messages API: sends requests, reads streamed responses, checks requests, fetches pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.api.accumulator import ApiResponse, ResponseAccumulator
    from unspool.api.connection import Connection, TokenCount, count_request_tokens, fetch_response
    from unspool.api.endpoint import Endpoint, endpoint_from_environment
    from unspool.api.retry import retry_delay
    from unspool.api.events import (
        AnyEvent, BlockDelta, BlockFinished, BlockStarted, MessageDelta, MessageFinished, MessageStarted, RetryWait,
        StreamBroken, StreamEvent, TextDelta, ThinkingDelta,
    )
    from unspool.api.web_fetch import FetchedPage, PageFetcher

__all__ = [
    "AnyEvent", "ApiResponse", "BlockDelta", "BlockFinished", "BlockStarted", "Connection", "Endpoint", "FetchedPage",
    "MessageDelta", "MessageFinished", "MessageStarted", "PageFetcher", "ResponseAccumulator", "RetryWait",
    "StreamBroken", "StreamEvent", "TextDelta", "ThinkingDelta", "TokenCount", "count_request_tokens",
    "endpoint_from_environment", "fetch_response", "retry_delay",
]

__getattr__ = lazy_door(__name__, {
    "accumulator": "ApiResponse ResponseAccumulator",
    "connection": "Connection TokenCount count_request_tokens fetch_response",
    "endpoint": "Endpoint endpoint_from_environment",
    "retry": "retry_delay",
    "events":
        "AnyEvent BlockDelta BlockFinished BlockStarted MessageDelta MessageFinished MessageStarted "
        "RetryWait StreamBroken StreamEvent TextDelta ThinkingDelta",
    "web_fetch": "FetchedPage PageFetcher",
})
