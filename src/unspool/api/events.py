"""What the API streams, typed: one frame's data in, one event out.

Rules
  1. An event or a delta that is not known here is `Other`, and says what it is: the API may add some at any time.
  2. Data that is not what it should be ends the stream as `Broken`; it is never an exception.

[merged: whole.py] An answer that came whole, though it was asked for in pieces, as some gateways do: bytes in, the same events out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that happens while an answer comes."""


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What is added to a block."""


class TextDelta(Delta, frozen=True, tag="text_delta"):
    """More of a text."""

    text: str


class ThinkingDelta(Delta, frozen=True, tag="thinking_delta"):
    """More of what the model thinks."""

    thinking: str


class SignatureDelta(Delta, frozen=True, tag="signature_delta"):
    """What signs the thinking."""

    signature: str


class InputDelta(Delta, frozen=True, tag="input_json_delta"):
    """More of a call's input, as JSON."""

    partial_json: str


class CitationDelta(Delta, frozen=True, tag="citations_delta"):
    """A source of a text."""

    citation: Json


class OtherDelta(Delta, frozen=True, tag=""):
    """What is not known here."""

    json: Json


class Begun(Event, frozen=True):
    """An answer begins: its id, model and first usage."""

    message: Json
    request_id: str | None = None


class BlockBegun(Event, frozen=True):
    """A block begins."""

    index: int
    content_block: Json


class BlockGrown(Event, frozen=True):
    """A block goes on."""

    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta | CitationDelta | OtherDelta


class BlockEnded(Event, frozen=True):
    """A block is whole."""

    index: int


class Changed(Event, frozen=True):
    """The message around the blocks: why it ends, what was used."""

    delta: Json
    usage: Json = {}


class Ended(Event, frozen=True):
    """The answer is whole."""


class Ping(Event, frozen=True):
    """Nothing, but the API is there."""


class Other(Event, frozen=True):
    """What is not known here."""

    json: Json


class Waiting(Event, frozen=True):
    """The request is asked again in some seconds. Only before an answer begins."""

    seconds: float
    attempt: int
    reason: str
    status: int | None = None


class Broken(Event, frozen=True):
    """The answer ends here, too early."""

    reason: str
    kind: str | None = None
    """The API's type of error, if it said one."""


AnyEvent: TypeAlias = (
    Begun | BlockBegun | BlockGrown | BlockEnded | Changed | Ended | Ping | Other | Waiting | Broken
)  # fmt: skip

_EVENTS: dict[str, type[Begun | BlockBegun | BlockEnded | Changed | Ended | Ping]] = {
    "message_start": Begun,
    "content_block_start": BlockBegun,
    "content_block_stop": BlockEnded,
    "message_delta": Changed,
    "message_stop": Ended,
    "ping": Ping,
}
_DELTAS: dict[str, type[TextDelta | ThinkingDelta | SignatureDelta | InputDelta | CitationDelta]] = {
    "text_delta": TextDelta,
    "thinking_delta": ThinkingDelta,
    "signature_delta": SignatureDelta,
    "input_json_delta": InputDelta,
    "citations_delta": CitationDelta,
}


_grown = msgspec.json.Decoder(BlockGrown).decode


class _Growth(msgspec.Struct, frozen=True):
    index: int
    delta: Json


def decode(data: str) -> AnyEvent:
    """Return the event that a frame's data says."""
    if "content_block_delta" in data[:40]:  # nearly all of an answer: straight to its type
        try:
            grown = _grown(data)
            if type(grown.delta) is not OtherDelta:
                return grown
        except msgspec.DecodeError:
            pass
    try:
        value = msgspec.json.decode(data, type=Json)
        kind = value.get("type")
        if kind == "error":
            return failed(value)
        if kind == "content_block_delta":
            growth = msgspec.convert(value, _Growth)
            return BlockGrown(index=growth.index, delta=_delta(growth.delta))
        struct = _EVENTS.get(str(kind))
        return Other(json=value) if struct is None else msgspec.convert(value, struct)
    except (msgspec.DecodeError, UnicodeError):
        return Broken(reason="an event is not what it should be")


def failed(value: Json) -> Broken:
    """Return the end that an error of the API makes."""
    error = value.get("error")
    said = error if isinstance(error, dict) else {}
    kind = str(said.get("type") or "api_error")
    return Broken(reason=str(said.get("message") or kind), kind=kind)


def _delta(value: Json) -> TextDelta | ThinkingDelta | SignatureDelta | InputDelta | CitationDelta | OtherDelta:
    struct = _DELTAS.get(str(value.get("type")))
    return OtherDelta(json=value) if struct is None else msgspec.convert(value, struct)


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
