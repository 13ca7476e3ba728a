"""About how many tokens a context has, told by what the session itself was billed for.

Every answer says how many tokens its request had. Between two answers of one conversation the request grew by what was
said meanwhile; a line through those points gives tokens per byte, and what each request has besides (system prompt and
tools, which are not in the file). Where a session has too few answers, or was edited so that its numbers no longer fit
its content, seven bytes are taken for two tokens.

Rules
  1. What is counted is the conversation: the messages, not what is sent besides them.
  2. Pictures and documents count by the piece; thinking that was withheld counts nothing.

[merged: gauge.py] What the program takes for the size of a context: the usage of the last answer.

A trimmed copy would be taken for as large as its source, and compacted as soon as it is resumed. So the last answer of
a copy says about how large the context is now; what it said before stands beside it (`unspool.usage`). Nothing is lost:
what was used counts once, in the session where it was used (the copy with the smaller numbers never counts).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from unspool.edit.draft import Draft
from unspool.edit.plan import Payback
from unspool.format.base import Usage
from unspool.format.blocks import Document, Image, RedactedThinking, Thinking, ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.json_edit import encode
from unspool.format.records import Assistant, User
from unspool.graph.context.blocks import ContextBlock
from unspool.graph.context.pairing import ContextMessage
from unspool.prices.price_list import Price

PICTURE = 1600
DOCUMENT = 4000
_PLAIN = 2 / 7
_LEAST, _MOST = 0.12, 0.6
"""Tokens per byte that can be: from long words of code to scripts of three bytes a letter."""
_ENOUGH = 4
_RATE_UNIT = 10_000


class Size(NamedTuple):
    """How much there is of something."""

    bytes: int
    pieces: int = 0
    """Tokens of what is counted by the piece."""


class Scale(NamedTuple):
    """What makes tokens of sizes."""

    per_byte: float = _PLAIN
    beside: int = 0
    """Tokens of each request besides its messages."""

    def tokens(self, sizes: Sequence[Size]) -> int:
        """Return about how many tokens these are."""
        return round(sum(size.bytes for size in sizes) * self.per_byte) + sum(size.pieces for size in sizes)


def sizes(messages: Sequence[ContextMessage]) -> list[Size]:
    """Return the size of each message."""
    return [_sum([size_of(block) for block in message.blocks]) for message in messages]


def scale(messages: Sequence[ContextMessage], measured: Sequence[Size], since: int = 0) -> Scale:
    """Return what a session's own usage says; only answers on lines after `since` are asked."""
    points: list[tuple[int, int]] = []
    reached = Size(0)
    for message, size in zip(messages, measured, strict=True):
        usage = _usage(message, since) if message.role == "assistant" else None
        if usage is not None and (prompt := _prompt(usage)):
            points.append((reached.bytes, prompt - reached.pieces))
        reached = _sum([reached, size])
    if len(points) < _ENOUGH:
        return Scale()
    slope = _slope(points)
    if slope is None or not _LEAST <= slope <= _MOST:
        return Scale()
    beside = sum(tokens for _, tokens in points) / len(points) - slope * sum(size for size, _ in points) / len(points)
    return Scale(slope, max(0, round(beside)))


def payback(
    before: Sequence[Size], after: Sequence[Size], measure: Scale, price: Price | None, answers_per_turn: float
) -> Payback | None:
    """Return what the changed context costs once, and when that is made up for; None if nothing changes."""
    same = next((at for at, (one, two) in enumerate(zip(before, after, strict=False)) if one != two), len(after))
    rewritten = measure.tokens(after[same:])
    less = measure.tokens(before) - measure.tokens(after)
    if price is None or (not rewritten and not less):
        return None
    cost = rewritten * price.rates.cache_write_5m // _RATE_UNIT
    saved = less * price.rates.cache_read // _RATE_UNIT
    requests = -(-cost // saved) if saved > 0 else None
    turns = None if requests is None else max(0, round(requests / max(answers_per_turn, 1) + 0.499))
    return Payback(price.model, rewritten, cost, saved, requests, turns)


def size_of(block: ContextBlock) -> Size:
    """Return the size of a block."""
    if block.made is not None or block.entry is None or block.text is not None:
        return Size(len(block.text) if block.text is not None else len(encode(block.made)))
    record = block.entry.record
    if not isinstance(record, User | Assistant) or isinstance(record.message.content, str):
        return Size(0)
    match record.message.content[block.index]:
        case Thinking(thinking=words):
            return Size(len(words))
        case RedactedThinking():
            return Size(0)
        case ToolUse(name=name, input=given):
            return Size(len(name) + len(encode(given)))
        case ToolResult() as result:
            return _result(result)
        case Image():
            return Size(0, PICTURE)
        case Document():
            return Size(0, DOCUMENT)
        case other:
            return Size(len(encode(other)))


def _result(result: ToolResult) -> Size:
    length = memoryview(result.encoded_content).nbytes
    if result.is_text or length == 0:
        return Size(length)
    pictures = [block for block in result.blocks if isinstance(block, Image | Document)]
    if not pictures:
        return Size(length)
    held = sum(len(block.source.data or "") for block in pictures)
    return Size(max(0, length - held), PICTURE * len(pictures))


def _usage(message: ContextMessage, since: int) -> Usage | None:
    for block in message.blocks:
        if block.entry is not None and isinstance(block.entry.record, Assistant) and block.entry.offset >= since:
            return block.entry.record.message.usage
    return None


def _prompt(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def _slope(points: list[tuple[int, int]]) -> float | None:
    count = len(points)
    middle_x, middle_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread if spread else None


def _sum(parts: Sequence[Size]) -> Size:
    return Size(sum(part.bytes for part in parts), sum(part.pieces for part in parts))


def gauge(draft: Draft, messages: list[ContextMessage], measure: Scale) -> None:
    """Let the last answer that stays say how large the context will be."""
    left = [
        (size_of(block), block.entry)
        for message in messages
        for block in message.blocks
        if block.entry is None or draft.keeps(block.entry, block.index)
    ]
    sizes = [size for size, _ in left]
    tokens = measure.tokens([*sizes, Size(-draft.shortened)]) + measure.beside
    last = next((entry for _, entry in reversed(left) if entry is not None and _used(entry) is not None), None)
    if last is None:
        return
    record = last.record
    assert isinstance(record, Assistant)
    for entry in draft.manuscript.entries:
        other = entry.record
        same = entry is last or (isinstance(other, Assistant) and other.message.id == record.message.id is not None)
        if same and draft.keeps(entry, None):
            _tell(draft, entry, tokens)


def _used(entry: Entry) -> dict[str, Any] | None:
    """Return what an answer's line says that it used."""
    record = entry.record
    if not isinstance(record, Assistant) or not record.message.usage or record.message.model == "<synthetic>":
        return None
    try:
        usage = msgspec.json.decode(entry.raw, type=_Line).message.usage
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return usage if isinstance(usage, dict) else None


def _tell(draft: Draft, entry: Entry, tokens: int) -> None:
    usage = _used(entry)
    if usage is None or usage.get("cache_read_input_tokens", 0) + usage.get("input_tokens", 0) <= tokens:
        return
    here = ("message", "usage")
    draft.change(entry, (*here, "input_tokens"), 0)
    draft.change(entry, (*here, "cache_creation_input_tokens"), 0)
    draft.change(entry, (*here, "cache_read_input_tokens"), max(tokens, 0))
    draft.change(entry, ("unspool",), {"usage": usage})


class _Message(msgspec.Struct):
    usage: Any = None


class _Line(msgspec.Struct):
    message: _Message = msgspec.field(default_factory=_Message)
