"""An answer that came whole, though it was asked for in pieces, as some gateways do: bytes in, the same events out."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unspool.api.events import AnyEvent, Begun, BlockBegun, BlockEnded, Broken, Changed, Ended, Json, failed


def events_of(data: bytes) -> Iterator[AnyEvent]:
    """Yield the events that a whole message would have been."""
    try:
        message = msgspec.json.decode(data, type=Json)
    except (msgspec.DecodeError, UnicodeError):
        yield Broken(reason="the answer is neither a stream nor JSON")
        return
    content = message.get("content")
    if message.get("type") == "error" or not isinstance(content, list):
        yield failed(message) if "error" in message else Broken(reason="the answer is not a message")
        return
    usage = message.get("usage")
    yield Begun(message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(content):
        if isinstance(block, dict):
            yield BlockBegun(index=index, content_block=block)
            yield BlockEnded(index=index)
    ended = {key: message.get(key) for key in ("stop_reason", "stop_sequence")}
    yield Changed(delta=ended, usage=usage if isinstance(usage, dict) else {})
    yield Ended()
