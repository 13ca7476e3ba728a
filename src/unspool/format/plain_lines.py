"""Decodes lines into plain dicts, for code that searches text and does not need typed records.

Rules
  1. A line gives the same items, at the same offsets, as `codec.decode` makes of it; a record is a dict here.
  2. `decode_spoken_fields` leaves out what nobody wrote as text: a tool's structured result, progress, snapshots. That
     is most of the bytes.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypedDict

import msgspec

from unspool.format.base import DECODE_ERRORS, Buffer
from unspool.format.codec import SESSION
from unspool.format.records import BadLine, Blank, Dialect
from unspool.format.recover import convert_record, recover_items

Json: TypeAlias = dict[str, Any]


class _Spoken(TypedDict, total=False):
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


_decode_spoken: Callable[[Buffer], Any] = msgspec.json.Decoder(_Spoken).decode
_decode_whole: Callable[[Buffer], Any] = msgspec.json.Decoder(dict[str, Any]).decode


def _is_line(value: Json) -> bool:
    return SESSION.is_line(convert_record(value)[0])


_SPOKEN = Dialect(_decode_spoken, lambda value: (value, []), _is_line)
_WHOLE = Dialect(_decode_whole, lambda value: (value, []), _is_line)


def decode_spoken_fields(line: Buffer, offset: int = 0) -> Iterator[tuple[int, Json]]:
    """Yield the objects of a line with their offsets, only with the fields that may hold text."""
    try:
        yield offset, _decode_spoken(line)
    except DECODE_ERRORS:
        yield from ((at, value) for at, value in _recover(line, offset, _SPOKEN) if isinstance(value, dict))


def decode_plain(line: Buffer, offset: int = 0) -> Iterator[tuple[int, Json | BadLine]]:
    """Yield the objects of a line with their offsets and all their fields, and its bad parts."""
    try:
        yield offset, _decode_whole(line)
    except DECODE_ERRORS:
        yield from _recover(line, offset, _WHOLE)


def _recover(line: Buffer, offset: int, dialect: Dialect) -> Iterator[tuple[int, Json | BadLine]]:
    for item in recover_items(bytes(line), offset, dialect):
        match item:
            case Blank():
                pass
            case BadLine():
                yield item.offset, item
            case entry:
                yield entry.offset, entry.record  # type: ignore[misc] # the dialects here make dicts
