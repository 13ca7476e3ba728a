"""Decodes lines: into entries, which are the exact bytes of a line with its record, or into plain dicts.

Rules
  1. The items made from a line cover it without gap or overlap, in order.
  2. Every line gives something: an `Entry` where it holds a JSON object, a `BadLine` with a reason where it does not, a
     `Blank` where there is nothing but white space. Nothing raises.
  3. The common line costs one call of the typed decoder; `recover` deals with every other.
  4. A line gives the same items, at the same offsets, as plain dicts: for code that searches text and needs no records.
     `decode_spoken_fields` leaves out what nobody wrote as text: a tool's structured result, progress, snapshots. That
     is most of the bytes.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypedDict

import msgspec

from unspool.errors import Refused
from unspool.format.base import DECODE_ERRORS, Buffer, Unknown
from unspool.format.json_edit import JsonPath, patch
from unspool.format.records import AnyRecord, BadLine, Blank, Dialect, Entry, Item
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


Json: TypeAlias = dict[str, Any]


class _TextFields(TypedDict, total=False):
    """The fields that may hold text. Any type fits, so that no line is refused for one."""

    type: Any
    subtype: Any
    uuid: Any
    timestamp: Any
    sessionId: Any
    isCompactSummary: Any
    isApiErrorMessage: Any
    message: Any
    content: Any
    operation: Any
    summary: Any
    customTitle: Any
    aiTitle: Any
    agentName: Any
    lastPrompt: Any
    tag: Any
    attachment: Any


_decode_text_fields: Callable[[Buffer], Any] = msgspec.json.Decoder(_TextFields).decode
_decode_whole: Callable[[Buffer], Any] = msgspec.json.Decoder(dict[str, Any]).decode


def _is_plain_line(value: Json) -> bool:
    return _is_line(_convert_record(value)[0])


_SPOKEN = Dialect(_decode_text_fields, lambda value: (value, []), _is_plain_line)
_WHOLE = Dialect(_decode_whole, lambda value: (value, []), _is_plain_line)


def decode_spoken_fields(line: Buffer, offset: int = 0) -> Iterator[tuple[int, Json]]:
    """Yield the objects of a line with their offsets, only with the fields that may hold text."""
    try:
        yield offset, _decode_text_fields(line)
    except DECODE_ERRORS:
        yield from ((at, value) for at, value in _recover(line, offset, _SPOKEN) if isinstance(value, dict))


def decode_plain(line: Buffer, offset: int = 0) -> Iterator[tuple[int, Json | BadLine]]:
    """Yield the objects of a line with their offsets and all their fields, and its bad parts."""
    try:
        yield offset, _decode_whole(line)
    except DECODE_ERRORS:
        yield from _recover(line, offset, _WHOLE)


def _recover(line: Buffer, offset: int, dialect: Dialect) -> Iterator[tuple[int, Json | BadLine]]:
    from unspool.format.recover import recover_items

    for item in recover_items(bytes(line), offset, dialect):
        match item:
            case Blank():
                pass
            case BadLine():
                yield item.offset, item
            case entry:
                yield entry.offset, entry.record  # type: ignore[misc] # the dialects here make dicts
