"""Decodes what the Messages API streams into typed events: the data of one server-sent event in, one event out.

Rules
  1. An event or a delta that is not known here is `UnknownEvent` or `UnknownDelta`, and holds its JSON: the API may add
     some at any time.
  2. Data that is not what it should be ends the stream as `StreamBroken`; it is never an exception.
  3. A message that came whole, though a stream was requested, gives the events that it would have been.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that happens while a response comes."""


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """A part that is added to a block."""


class TextDelta(Delta, frozen=True, tag="text_delta"):
    """More of a text."""

    text: str


class ThinkingDelta(Delta, frozen=True, tag="thinking_delta"):
    """More of the thinking."""

    thinking: str


class SignatureDelta(Delta, frozen=True, tag="signature_delta"):
    """The signature of the thinking."""

    signature: str


class InputDelta(Delta, frozen=True, tag="input_json_delta"):
    """More of a call's input, as JSON."""

    partial_json: str


class CitationDelta(Delta, frozen=True, tag="citations_delta"):
    """A citation of a text."""

    citation: Json


class UnknownDelta(Delta, frozen=True, tag=""):
    """A delta of a type that is not known here."""

    json: Json


class MessageStarted(StreamEvent, frozen=True):
    """A message begins: its id, model and first usage."""

    message: Json
    request_id: str | None = None


class BlockStarted(StreamEvent, frozen=True):
    """A block begins."""

    index: int
    content_block: Json


class BlockDelta(StreamEvent, frozen=True):
    """A block grows."""

    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta | CitationDelta | UnknownDelta


class BlockFinished(StreamEvent, frozen=True):
    """A block is whole."""

    index: int


class MessageDelta(StreamEvent, frozen=True):
    """Fields of the message that are known at the end: stop reason, usage."""

    delta: Json
    usage: Json = {}


class MessageFinished(StreamEvent, frozen=True):
    """The message is whole."""


class Ping(StreamEvent, frozen=True):
    """A sign of life while nothing else is sent."""


class UnknownEvent(StreamEvent, frozen=True):
    """An event of a type that is not known here."""

    json: Json


class RetryWait(StreamEvent, frozen=True):
    """The request is sent again in some seconds. Only before a response begins."""

    seconds: float
    attempt: int
    reason: str
    status: int | None = None


class StreamBroken(StreamEvent, frozen=True):
    """The response ends here, too early."""

    reason: str
    kind: str | None = None
    """The API's type of error, if there was one."""


AnyEvent: TypeAlias = (
    MessageStarted | BlockStarted | BlockDelta | BlockFinished | MessageDelta | MessageFinished
    | Ping | UnknownEvent | RetryWait | StreamBroken
)  # fmt: skip

_EVENTS: dict[str, type[MessageStarted | BlockStarted | BlockFinished | MessageDelta | MessageFinished | Ping]] = {
    "message_start": MessageStarted,
    "content_block_start": BlockStarted,
    "content_block_stop": BlockFinished,
    "message_delta": MessageDelta,
    "message_stop": MessageFinished,
    "ping": Ping,
}
_DELTAS = frozenset({"text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"})
# Built once: a decoder for one type is faster than `msgspec.json.decode` with that type.
_decode_delta = msgspec.json.Decoder(BlockDelta).decode


class _RawDelta(msgspec.Struct, frozen=True):
    index: int
    delta: Json


def decode_event(data: str) -> AnyEvent:
    """Return the event that the data of a server-sent event holds."""
    if "content_block_delta" in data[:40]:  # nearly all of a response: decoded straight to its type
        try:
            event = _decode_delta(data)
            if type(event.delta) is not UnknownDelta:
                return event
        except msgspec.DecodeError:
            pass
    try:
        value = msgspec.json.decode(data, type=Json)
        kind = value.get("type")
        if kind == "error":
            return error_event(value)
        if kind == "content_block_delta":
            raw = msgspec.convert(value, _RawDelta)
            if str(raw.delta.get("type")) in _DELTAS:
                return msgspec.convert(value, BlockDelta)
            return BlockDelta(index=raw.index, delta=UnknownDelta(json=raw.delta))
        struct = _EVENTS.get(str(kind))
        return UnknownEvent(json=value) if struct is None else msgspec.convert(value, struct)
    except (msgspec.DecodeError, UnicodeError):
        return StreamBroken(reason="an event is not what it should be")


def error_event(value: Json) -> StreamBroken:
    """Return the event for an error of the API."""
    error = value.get("error")
    fields = error if isinstance(error, dict) else {}
    kind = str(fields.get("type") or "api_error")
    return StreamBroken(reason=str(fields.get("message") or kind), kind=kind)


def message_to_events(data: bytes) -> Iterator[AnyEvent]:
    """Yield the events that a whole message would have been in a stream."""
    try:
        message = msgspec.json.decode(data, type=Json)
    except (msgspec.DecodeError, UnicodeError):
        yield StreamBroken(reason="the answer is neither a stream nor JSON")
        return
    content = message.get("content")
    if message.get("type") == "error" or not isinstance(content, list):
        yield error_event(message) if "error" in message else StreamBroken(reason="the answer is not a message")
        return
    usage = message.get("usage")
    yield MessageStarted(message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(content):
        if isinstance(block, dict):
            yield BlockStarted(index=index, content_block=block)
            yield BlockFinished(index=index)
    ended = {key: message.get(key) for key in ("stop_reason", "stop_sequence")}
    yield MessageDelta(delta=ended, usage=usage if isinstance(usage, dict) else {})
    yield MessageFinished()
