"""Bytes to entries: the line, exactly, and what it means.

Rules
  1. The items made from a line cover it without gap or overlap, in order.
  2. Every line gives something: an `Entry` where it holds a JSON object, a `BadLine` with a reason where it does
     not, a `Blank` where there is nothing but white space. Nothing raises.
  3. The common line costs one call of the typed decoder; all else is `recover`'s business.
"""

from collections.abc import Callable, Mapping

import msgspec

from unspool.errors import Refused
from unspool.format import recover
from unspool.format import recover as loose
from unspool.format.base import UNDECODABLE, Buffer
from unspool.format.entry import Dialect, Entry, Item
from unspool.format.envelope import Unknown
from unspool.format.json_edit import Path, patch
from unspool.format.records import AnyRecord
from unspool.format.side_files.json import HistoryEntry

_any_record: Callable[[Buffer], AnyRecord] = msgspec.json.Decoder(AnyRecord).decode


def _is_line(record: AnyRecord) -> bool:
    return not isinstance(record, Unknown) or bool(record.uuid or record.session_id or record.timestamp)


SESSION = Dialect(_any_record, loose.record, _is_line)
"""Sessions, sub-agents and workflow journals."""

HISTORY = Dialect(
    msgspec.json.Decoder(HistoryEntry).decode,
    lambda value: loose.shaped(value, HistoryEntry),
    lambda entry: entry.timestamp is not None,
)
"""`history.jsonl`."""


def decode(line: Buffer, offset: int = 0, dialect: Dialect = SESSION) -> list[Item]:
    """Return what a line holds: normally one entry."""
    try:
        return [Entry(offset, line, dialect.decode(line))]
    except UNDECODABLE:
        return recover.items(bytes(line), offset, dialect)


def patched(entry: Entry, changes: Mapping[Path, object], dialect: Dialect = SESSION) -> Entry:
    """Return the entry with some of its values changed; every other byte stays."""
    match decode(patch(entry.line, changes), entry.offset, dialect):
        case [Entry() as changed]:
            return changed
        case _:
            raise Refused("the change does not leave one JSON object on the line")
