"""What the program takes for the size of a context: the usage of the last answer.

A trimmed copy would be taken for as large as its source, and compacted as soon as it is resumed. So the last answer of
a copy says how large the context is now; what it said before stands beside it (`unspool.usage`). Nothing is lost: what
was used counts once, in the session where it was used (the copy with the smaller numbers never counts).
"""

from __future__ import annotations

from typing import Any

import msgspec

from unspool.edit.invariants import Checked
from unspool.edit.manuscript import Manuscript, read
from unspool.edit.steps import Finished
from unspool.errors import Refused
from unspool.format.entry import Entry, Item
from unspool.format.patch import patch
from unspool.format.records import Assistant


def gauged(finished: Finished, result: Manuscript, checked: Checked, tokens: int | None) -> tuple[Finished, Manuscript]:
    """Return a copy whose last answer says how large the context is; as it is where there is nothing to say."""
    lines = _last_answer(result, checked) if tokens is not None else []
    if not lines:
        return finished, result
    start = lines[0].offset
    at, pieces = start, []
    for line in lines:
        pieces.append(result.data[at : line.offset])
        pieces.append(_told(line, tokens or 0))
        at = line.offset + line.length
    tail = b"".join([*pieces, result.data[at:]])
    data = result.data[:start] + tail
    kept = [item for item in result.items if item.offset < start]
    items = (*kept, *(_shifted(item, start) for item in read(result.id, tail).items))
    entries = tuple(item for item in items if type(item) is Entry)
    return finished._replace(data=data), Manuscript(result.id, data, items, entries)


def _last_answer(result: Manuscript, checked: Checked) -> list[Entry]:
    """Return the lines of the last answer in a context that tells what was used."""
    for message in reversed(checked.messages):
        for block in message.blocks:
            record = block.entry.record if block.entry else None
            if isinstance(record, Assistant) and record.message.usage and record.message.model != "<synthetic>":
                id = record.message.id
                return [
                    entry
                    for entry in result.entries
                    if isinstance(entry.record, Assistant)
                    and entry.record.message.usage
                    and (entry.record.message.id == id if id else entry.record is record)
                ]
    return []


def _told(line: Entry, tokens: int) -> bytes:
    raw = bytes(line.raw)
    usage: Any = msgspec.json.decode(raw, type=_Line).message.usage
    if not isinstance(usage, dict):
        return raw
    here = ("message", "usage")
    values: dict[tuple[str | int, ...], object] = {
        (*here, "input_tokens"): 0,
        (*here, "cache_creation_input_tokens"): 0,
        (*here, "cache_read_input_tokens"): tokens,
        ("unspool",): {"usage": usage},
    }
    try:
        return patch(raw, values)
    except Refused:
        return raw


def _shifted(item: Item, by: int) -> Item:
    return msgspec.structs.replace(item, offset=item.offset + by)


class _Message(msgspec.Struct):
    usage: Any = None


class _Line(msgspec.Struct):
    message: _Message = msgspec.field(default_factory=_Message)
