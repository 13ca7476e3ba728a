"""Events in, the answer so far out: finished blocks, what is unfinished, why it ended.

Rules
  1. A block that was finished is kept, whatever comes after. Of one that was not, its text is.
  2. A call whose input is not a JSON object is unfinished, also if the API says that it is whole: it cannot be run and
     must not be sent back.
  3. An answer that has not ended, or in which something does not fit, is broken, and says why.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unspool.api.events import (
    AnyEvent,
    Begun,
    BlockBegun,
    BlockEnded,
    BlockGrown,
    Broken,
    Changed,
    CitationDelta,
    Ended,
    InputDelta,
    Json,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)

CUT = "the answer ends before its end"


class Unfinished(msgspec.Struct, frozen=True):
    """A block that broke off: its type, its words so far, the block as far as it is known."""

    type: str
    text: str
    block: Json


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the API said, whole or not."""

    id: str | None = None
    model: str | None = None
    content: tuple[Json, ...] = ()
    """Finished blocks, as they may be sent back."""
    unfinished: tuple[Unfinished, ...] = ()
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Json = {}
    broken: str | None = None
    """Why it ended too early; None if it did not."""
    kind: str | None = None
    """The API's type of error, if it said one."""
    request_id: str | None = None

    @property
    def text(self) -> str:
        """All texts, also an unfinished one."""
        said = [str(block.get("text", "")) for block in self.content if block.get("type") == "text"]
        return "".join((*said, *(part.text for part in self.unfinished if part.type == "text")))


class _Growing:
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


class Assembly:
    """An answer while it comes."""

    def __init__(self) -> None:
        self._request_id: str | None = None
        self._message: Json = {}
        self._usage: Json = {}
        self._growing: dict[int, _Growing] = {}
        self._content: dict[int, Json] = {}
        self._unfinished: dict[int, Unfinished] = {}
        self._broken: str | None = CUT
        self._kind: str | None = None
        self._over = False

    def add(self, event: AnyEvent) -> None:
        """Take one event. After the end nothing changes any more."""
        if self._over:
            return
        if type(event) is BlockGrown:  # before all others: nearly every event is one
            self._grow(event.index, event)
            return
        match event:
            case Begun(message=message, request_id=request_id):
                self._message, self._request_id = {**message}, request_id
                self._add_usage(message.get("usage"))
            case BlockBegun(index=index, content_block=block):
                self._growing[index] = _Growing(block)
            case BlockEnded(index=index):
                self._finish(index)
            case Changed(delta=delta, usage=usage):
                self._message.update({key: value for key, value in delta.items() if value is not None})
                self._add_usage(usage)
            case Ended():
                self._end(None if self._message and not self._growing else CUT)
            case Broken(reason=reason, kind=kind):
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

    def answer(self) -> Answer:
        """Return what there is."""
        growing = {index: _unfinished(block) for index, block in self._growing.items()}
        torn = {**self._unfinished, **growing}
        return Answer(
            id=_text(self._message.get("id")),
            model=_text(self._message.get("model")),
            content=tuple(self._content[index] for index in sorted(self._content)),
            unfinished=tuple(torn[index] for index in sorted(torn)),
            stop_reason=_text(self._message.get("stop_reason")),
            stop_sequence=_text(self._message.get("stop_sequence")),
            usage={**self._usage},
            broken=self._broken,
            kind=self._kind,
            request_id=self._request_id,
        )

    def _grow(self, index: int, event: BlockGrown) -> None:
        block = self._growing.get(index)
        if block is None:
            self._end("a block goes on that has not begun")
            return
        delta = event.delta
        if type(delta) is TextDelta:
            block.parts.setdefault("text", []).append(delta.text)
            return
        match delta:
            case ThinkingDelta(thinking=part):
                block.parts.setdefault("thinking", []).append(part)
            case SignatureDelta(signature=part):
                block.parts.setdefault("signature", []).append(part)
            case InputDelta(partial_json=part):
                block.parts.setdefault("input", []).append(part)
            case CitationDelta(citation=citation):
                block.citations.append(citation)
            case _:
                pass

    def _finish(self, index: int) -> None:
        block = self._growing.pop(index, None)
        if block is None:
            self._end("a block ends that has not begun")
            return
        joined, given = block.joined(), block.input()
        if not given.strip():
            self._content[index] = joined
            return
        value = _object(given)
        if value is None:
            self._unfinished[index] = _unfinished(block)
        else:
            self._content[index] = {**joined, "input": value}

    def _add_usage(self, usage: Any) -> None:
        """Later numbers are totals; what is not said again stays."""
        if isinstance(usage, dict):
            self._usage.update({key: value for key, value in usage.items() if value is not None})

    def _end(self, reason: str | None) -> None:
        self._broken = reason
        self._over = True


def _unfinished(block: _Growing) -> Unfinished:
    joined = block.joined()
    kind = str(joined.get("type"))
    words = block.input() or joined.get("text") or joined.get("thinking") or ""
    return Unfinished(kind, str(words), joined)


def _object(text: str) -> Json | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return value if isinstance(value, dict) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
