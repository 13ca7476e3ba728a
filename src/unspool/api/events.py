"""Decodes what the Messages API streams into typed events: the data of one server-sent event in, one event out.

Rules
  1. An event or a delta that is not known here is `UnknownEvent` or `UnknownDelta`, and holds its JSON: the API may add
     some at any time.
  2. Data that is not what it should be ends the stream as `StreamBroken`; it is never an exception.
  3. A message that came whole, though a stream was requested, gives the events that it would have been.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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


class MessageStarted(StreamEvent, frozen=True, tag_field="type", tag="message_start"):
    """A message begins: its id, model and first usage."""

    message: Json
    request_id: str | None = None


class BlockStarted(StreamEvent, frozen=True, tag_field="type", tag="content_block_start"):
    """A block begins."""

    index: int
    content_block: Json


class BlockDelta(StreamEvent, frozen=True, tag_field="type", tag="content_block_delta"):
    """A block grows."""

    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta | CitationDelta | UnknownDelta


class BlockFinished(StreamEvent, frozen=True, tag_field="type", tag="content_block_stop"):
    """A block is whole."""

    index: int


class MessageDelta(StreamEvent, frozen=True, tag_field="type", tag="message_delta"):
    """Fields of the message that are known at the end: stop reason, usage."""

    delta: Json
    usage: Json = {}


class MessageFinished(StreamEvent, frozen=True, tag_field="type", tag="message_stop"):
    """The message is whole."""


class Ping(StreamEvent, frozen=True, tag_field="type", tag="ping"):
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

_SENT = MessageStarted | BlockStarted | BlockDelta | BlockFinished | MessageDelta | MessageFinished | Ping
_SENT_TYPES = frozenset(str(event.__struct_config__.tag) for event in _SENT.__args__)
_DELTA_TYPES = frozenset({"text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"})
# Built once: a decoder for some types is faster than `msgspec.json.decode` with them.
_decode_sent: Callable[[str], AnyEvent] = msgspec.json.Decoder(_SENT).decode


def decode_event(data: str) -> AnyEvent:
    """Return the event that the data of a server-sent event holds."""
    broken = StreamBroken(reason="the stream contains a malformed event")
    try:
        return _decode_sent(data)
    except (msgspec.DecodeError, UnicodeError):
        pass  # an error of the API, or of a type that is not known here, or not what it should be
    try:
        value = msgspec.json.decode(data, type=Json)
    except (msgspec.DecodeError, UnicodeError):
        return broken
    match value:
        case {"type": "error"}:
            return error_event(value)
        case {"type": "content_block_delta", "index": int() as index, "delta": dict() as delta}:
            # In Python `True` is an integer; in JSON it is none.
            is_new = str(delta.get("type")) not in _DELTA_TYPES and type(index) is int
            return BlockDelta(index=index, delta=UnknownDelta(json=delta)) if is_new else broken
        case {"type": str() as kind} if kind in _SENT_TYPES:
            return broken
        case _:
            return UnknownEvent(json=value)


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
        yield StreamBroken(reason="the response is neither a stream nor JSON")
        return
    content = message.get("content")
    if message.get("type") == "error" or not isinstance(content, list):
        yield error_event(message) if "error" in message else StreamBroken(reason="the response is not a message")
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


_PAGE = re.compile(rb"\s*<(!doctype|html|head|body|\?xml)", re.IGNORECASE)
_PAGE_TITLE = re.compile(rb"<title>([^<]{1,200})", re.IGNORECASE)
_TITLE_BYTES = 1 << 14
OPENAI_FORMAT = "OpenAI's format (`choices`), not with a message"
NO_SUCH_ADDRESS = "that it does not know this address"


def name_foreign_body(data: bytes) -> str | None:
    """Return what a body is that no Messages API sends: a web page, or another API's answer; None if it may be one."""
    if _PAGE.match(data[:_TITLE_BYTES]):
        title = _PAGE_TITLE.search(data[:_TITLE_BYTES])
        return "a web page" + (f": {title[1].decode(errors='replace').strip()}" if title else "")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return name_foreign_object(value) if isinstance(value, dict) else None


def name_foreign_object(value: Json) -> str | None:
    """Return which other API an object is of; None if it is of none that is known."""
    if "choices" in value or str(value.get("object", "")).startswith("chat.completion"):
        return OPENAI_FORMAT
    error = value.get("error")
    # LM Studio says so with status 200.
    return NO_SUCH_ADDRESS if isinstance(error, str) and error.lower().startswith("unexpected endpoint") else None
