"""Decodes lines into entries: the exact bytes of each line together with its record.

Rules
  1. The items made from a line cover it without gap or overlap, in order.
  2. Every line gives something: an `Entry` where it holds a JSON object, a `BadLine` with a reason where it does not, a
     `Blank` where there is nothing but white space. Nothing raises.
  3. The common line costs one call of the typed decoder; `recover` deals with every other.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from unspool.errors import Refused
from unspool.format.base import DECODE_ERRORS, Buffer
from unspool.format.envelope import Unknown
from unspool.format.json_edit import JsonPath, patch
from unspool.format.records import AnyRecord, Dialect, Entry, Item
from unspool.format.side_files.json import HistoryEntry

_decode_record: Callable[[Buffer], AnyRecord] = msgspec.json.Decoder(AnyRecord).decode


# Any object decodes as an `Unknown`; without one of these fields it was nested in a torn record.
def _is_line(record: AnyRecord) -> bool:
    return not isinstance(record, Unknown) or bool(record.uuid or record.session_id or record.timestamp)


# `recover.py` is imported by the functions that call it: start-up, for most files have no damaged line.
def _convert_record(value: dict[str, Any]) -> tuple[AnyRecord, list[str]]:
    from unspool.format.recover import convert_record

    return convert_record(value)


def _convert_history_entry(value: dict[str, Any]) -> tuple[HistoryEntry, list[str]]:
    from unspool.format.recover import convert_struct

    return convert_struct(value, HistoryEntry)


SESSION = Dialect(_decode_record, _convert_record, _is_line)
"""Lines of sessions, sub-agents and workflow journals."""

HISTORY = Dialect(
    msgspec.json.Decoder(HistoryEntry).decode,
    _convert_history_entry,
    lambda entry: entry.timestamp is not None,
)
"""Lines of `history.jsonl`."""


def decode(line: Buffer, offset: int = 0, dialect: Dialect = SESSION) -> list[Item]:
    """Decode a line into its items: normally one entry."""
    try:
        return [Entry(offset, line, dialect.decode(line))]
    except DECODE_ERRORS:
        from unspool.format.recover import recover_items

        return recover_items(bytes(line), offset, dialect)


def patched(entry: Entry, changes: Mapping[JsonPath, object], dialect: Dialect = SESSION) -> Entry:
    """Return the entry with some of its values changed; every other byte stays."""
    match decode(patch(entry.line, changes), entry.offset, dialect):
        case [Entry() as changed]:
            return changed
        case _:
            raise Refused("the change does not leave one JSON object on the line")
