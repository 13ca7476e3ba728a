"""Talks to the Messages API: sends requests, reads streamed responses, checks requests, fetches pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.api.accumulator import ApiResponse, ResponseAccumulator
    from unspool.api.connection import Connection, ServedModel, TokenCount, count_request_tokens, fetch_response
    from unspool.api.endpoint import Endpoint, endpoint_from_environment, find_proxy, ssl_context
    from unspool.api.model_servers import SERVERS, endpoint_from_name, find_preset
    from unspool.api.retry import DEFAULT_RETRY, QUICK_RETRY, RetryPolicy, retry_delay
    from unspool.api.events import (
        AnyEvent, BlockDelta, BlockFinished, BlockStarted, MessageDelta, MessageFinished, MessageStarted, RetryWait,
        StreamBroken, StreamEvent, TextDelta, ThinkingDelta,
    )
    from unspool.api.web_fetch import FetchedPage, FetchLimits, PageFetcher

__all__ = [
    "DEFAULT_RETRY",
    "QUICK_RETRY",
    "SERVERS",
    "AnyEvent",
    "ApiResponse",
    "BlockDelta",
    "BlockFinished",
    "BlockStarted",
    "Connection",
    "Endpoint",
    "FetchLimits",
    "FetchedPage",
    "MessageDelta",
    "MessageFinished",
    "MessageStarted",
    "PageFetcher",
    "ResponseAccumulator",
    "RetryPolicy",
    "RetryWait",
    "ServedModel",
    "StreamBroken",
    "StreamEvent",
    "TextDelta",
    "ThinkingDelta",
    "TokenCount",
    "count_request_tokens",
    "endpoint_from_environment",
    "endpoint_from_name",
    "fetch_response",
    "find_preset",
    "find_proxy",
    "retry_delay",
    "ssl_context",
]

__getattr__ = lazy_door(__name__, {
    "accumulator": "ApiResponse ResponseAccumulator",
    "connection": "Connection ServedModel TokenCount count_request_tokens fetch_response",
    "endpoint": "Endpoint endpoint_from_environment find_proxy ssl_context",
    "model_servers": "SERVERS endpoint_from_name find_preset",
    "retry": "DEFAULT_RETRY QUICK_RETRY RetryPolicy retry_delay",
    "events":
        "AnyEvent BlockDelta BlockFinished BlockStarted MessageDelta MessageFinished MessageStarted "
        "RetryWait StreamBroken StreamEvent TextDelta ThinkingDelta",
    "web_fetch": "FetchLimits FetchedPage PageFetcher",
})
