"""Puts the events of a stream together to a response: finished blocks, unfinished ones, why it ended.

Rules
  1. A block that was finished is kept, whatever comes after. Of one that was not, its text is.
  2. A call whose input is not a JSON object is unfinished, also if the API says that it is whole: it cannot be run and
     must not be sent back.
  3. A response is whole when its blocks are closed and a stop reason came, also if the stream ends without
     `message_stop`: some servers send none. Any other that has not ended, or in which something does not fit, is
     broken, and says why.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unspool.api import events
from unspool.api.events import AnyEvent, Json

ENDED_EARLY = "the response ended before it was complete"
_DELTA_FIELDS: dict[type, tuple[str, str]] = {
    events.TextDelta: ("text", "text"),
    events.ThinkingDelta: ("thinking", "thinking"),
    events.SignatureDelta: ("signature", "signature"),
    events.InputDelta: ("input", "partial_json"),
}
"""The field of a block that a delta adds to, and the delta's field with what is added."""


class UnfinishedBlock(msgspec.Struct, frozen=True):
    """A block that broke off: its type, its text so far, the block as far as it is known."""

    type: str
    text: str
    block: Json


class ApiResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response of the API, whole or not."""

    id: str | None = None
    model: str | None = None
    content: tuple[Json, ...] = ()
    """Finished blocks, as they may be sent back."""
    unfinished: tuple[UnfinishedBlock, ...] = ()
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Json = {}
    broken: str | None = None
    """Why it ended too early; None if it did not."""
    kind: str | None = None
    """The API's type of error, if there was one."""
    request_id: str | None = None

    @property
    def text(self) -> str:
        """All texts, also an unfinished one."""
        texts = [str(block.get("text", "")) for block in self.content if block.get("type") == "text"]
        return "".join((*texts, *(part.text for part in self.unfinished if part.type == "text")))


class _GrowingBlock:
    """A block that is not finished yet."""

    def __init__(self, block: Json) -> None:
        self.block = {**block}
        self.parts: dict[str, list[str]] = {}
        self.citations: list[Json] = []

    def joined(self) -> Json:
        """Return the block with all that was added to it, but for a call's input."""
        grown = {
            key: str(self.block.get(key) or "") + "".join(parts) for key, parts in self.parts.items() if key != "input"
        }
        cited = {"citations": [*(self.block.get("citations") or []), *self.citations]} if self.citations else {}
        return {**self.block, **grown, **cited}

    def input(self) -> str:
        return "".join(self.parts.get("input", ()))

    def unfinished(self) -> UnfinishedBlock:
        joined = self.joined()
        words = self.input() or joined.get("text") or joined.get("thinking") or ""
        return UnfinishedBlock(str(joined.get("type")), str(words), joined)


class ResponseAccumulator:
    """Takes the events of one stream and holds the response so far."""

    def __init__(self) -> None:
        self._request_id: str | None = None
        self._message: Json = {}
        self._usage: Json = {}
        self._growing: dict[int, _GrowingBlock] = {}
        self._content: dict[int, Json] = {}
        self._unfinished: dict[int, UnfinishedBlock] = {}
        self._broken: str | None = ENDED_EARLY
        self._kind: str | None = None
        self._over = False

    def add(self, event: AnyEvent) -> None:
        """Take one event. After the end nothing changes any more."""
        if self._over:
            return
        if type(event) is events.BlockDelta:  # before all others: nearly every event is one
            self._grow(event)
            return
        match event:
            case events.MessageStarted(message=message, request_id=request_id):
                self._message, self._request_id = {**message}, request_id
                self._add_usage(message.get("usage"))
            case events.BlockStarted(index=index, content_block=block):
                self._growing[index] = _GrowingBlock(block)
            case events.BlockFinished(index=index):
                self._finish(index)
            case events.MessageDelta(delta=delta, usage=usage):
                self._message.update({key: value for key, value in delta.items() if value is not None})
                self._add_usage(usage)
            case events.MessageFinished():
                self._end(None if self._message and not self._growing else ENDED_EARLY)
            case events.StreamBroken(reason=reason, kind=kind):
                if self._head_text("stop_reason") and not self._growing:
                    self._end(None)
                    return
                self._kind = kind
                self._end(reason)
            case _:
                pass

    def block(self, index: int) -> Json | None:
        """Return a block that is finished."""
        return self._content.get(index)

    def head(self) -> Json:
        """Return the message without its content, as far as it is known: id, model, stop reason, usage."""
        return {**self._message, "usage": {**self._usage}}

    def response(self) -> ApiResponse:
        """Return the response so far."""
        # Blocks that still grow when the stream ends are unfinished, too.
        unfinished = {**self._unfinished, **{index: block.unfinished() for index, block in self._growing.items()}}
        return ApiResponse(
            id=self._head_text("id"),
            model=self._head_text("model"),
            stop_reason=self._head_text("stop_reason"),
            stop_sequence=self._head_text("stop_sequence"),
            content=tuple(self._content[index] for index in sorted(self._content)),
            unfinished=tuple(unfinished[index] for index in sorted(unfinished)),
            usage={**self._usage},
            broken=self._broken,
            kind=self._kind,
            request_id=self._request_id,
        )

    def _head_text(self, key: str) -> str | None:
        value = self._message.get(key)
        return value if isinstance(value, str) else None

    def _grow(self, event: events.BlockDelta) -> None:
        block = self._growing.get(event.index)
        if block is None:
            self._end("the stream continues a block that it did not start")
            return
        delta = event.delta
        if fields := _DELTA_FIELDS.get(type(delta)):
            block.parts.setdefault(fields[0], []).append(getattr(delta, fields[1]))
        elif isinstance(delta, events.CitationDelta):
            block.citations.append(delta.citation)

    def _finish(self, index: int) -> None:
        block = self._growing.pop(index, None)
        if block is None:
            self._end("the stream ends a block that it did not start")
            return
        joined, given = block.joined(), block.input()
        # A call without arguments has no deltas: the input that it began with is the whole.
        if not given.strip():
            self._content[index] = joined
            return
        try:
            value = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeError):
            value = None
        if isinstance(value, dict):
            self._content[index] = {**joined, "input": value}
        else:
            self._unfinished[index] = block.unfinished()

    def _add_usage(self, usage: Any) -> None:
        """Take numbers of usage: later ones are totals; what is not repeated stays."""
        if isinstance(usage, dict):
            self._usage.update({key: value for key, value in usage.items() if value is not None})

    def _end(self, reason: str | None) -> None:
        self._broken = reason
        self._over = True
