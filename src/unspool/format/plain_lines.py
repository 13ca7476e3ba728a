"""Lines as plain data, for those who look for texts in them and not for what they mean.

Rules
  1. A line gives the same items, at the same offsets, as `codec.decode` makes of it; a record is a dict here.
  2. `spoken` leaves out what nobody wrote and nobody said: a tool's own result, progress, snapshots. That is most of
     the bytes.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypedDict

import msgspec

from unspool.format import recover
from unspool.format import recover as loose
from unspool.format.base import UNDECODABLE, Buffer
from unspool.format.codec import SESSION
from unspool.format.entry import BadLine, Blank, Dialect

Json: TypeAlias = dict[str, Any]


class _Spoken(TypedDict, total=False):
    """Anything fits: nothing is refused for its type."""

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


def _stands_alone(value: Json) -> bool:
    return SESSION.stands_alone(loose.record(value)[0])


_SPOKEN = Dialect(_decode_spoken, lambda value: (value, []), _stands_alone)
_WHOLE = Dialect(_decode_whole, lambda value: (value, []), _stands_alone)


def spoken(line: Buffer, offset: int = 0) -> Iterator[tuple[int, Json]]:
    """Yield the objects of a line with their offsets, without what was not said."""
    try:
        yield offset, _decode_spoken(line)
    except UNDECODABLE:
        yield from ((at, value) for at, value in _recovered(line, offset, _SPOKEN) if isinstance(value, dict))


def whole(line: Buffer, offset: int = 0) -> Iterator[tuple[int, Json | BadLine]]:
    """Yield the objects of a line with their offsets, and what is no object."""
    try:
        yield offset, _decode_whole(line)
    except UNDECODABLE:
        yield from _recovered(line, offset, _WHOLE)


def _recovered(line: Buffer, offset: int, dialect: Dialect) -> Iterator[tuple[int, Json | BadLine]]:
    for item in recover.items(bytes(line), offset, dialect):
        match item:
            case Blank():
                pass
            case BadLine():
                yield item.offset, item
            case entry:
                yield entry.offset, entry.record  # type: ignore[misc] # a dict, as the dialect says
