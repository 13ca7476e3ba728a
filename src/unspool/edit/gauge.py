"""What the program takes for the size of a context: the usage of the last answer.

A trimmed copy would be taken for as large as its source, and compacted as soon as it is resumed. So the last answer of
a copy says about how large the context is now; what it said before stands beside it (`unspool.usage`). Nothing is lost:
what was used counts once, in the session where it was used (the copy with the smaller numbers never counts).
"""

from __future__ import annotations

from typing import Any

import msgspec

from unspool.edit.steps import Draft
from unspool.edit.tokens import Scale, Size, size_of
from unspool.format.entry import Entry
from unspool.format.records import Assistant
from unspool.graph.drafts import ContextMessage


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
