"""One growing file: path and position in, entries and next position out.

Rules
  1. A torn line is never returned: what has no line end yet stays for the next read, unless the caller says the
     file is final. Then a whole document is an entry and anything else a bad line.
  2. Reading in several goes gives the same items as reading once.
  3. A file that is no longer the one a position was made on (`position.py`) is read from zero again, and the piece
     says so.
  4. Memory is bounded by the piece size and the longest line that is held, not by the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool.files.open import open_regular
from unspool.format import recover
from unspool.format.base import UNDECODABLE
from unspool.format.codec import SESSION
from unspool.format.entry import BadLine, Dialect, Entry, Item
from unspool.read.chunks import LIMITS, Limits, read_at
from unspool.read.lines import Line, LineBuffer, LongLine
from unspool.read.position import START, Change, Position, changed, position_at

__all__ = ["START", "Change", "Piece", "Position", "decode_lines", "items", "pieces"]


class Piece(NamedTuple):
    """Some items and where to go on after them."""

    items: list[Item]
    position: Position
    change: Change


def pieces(
    path: Path,
    position: Position = START,
    *,
    final: bool = False,
    dialect: Dialect = SESSION,
    limits: Limits = LIMITS,
) -> Iterator[Piece]:
    """Yield what a file holds after a position, at least one piece."""
    with open_regular(path) as file:
        change = changed(file, position)
        offset = position.offset if change in (Change.SAME, Change.GROWN) else 0
        buffer, reached, read_any = LineBuffer(offset, limits.line), offset, False
        while data := read_at(file, reached, limits.piece, path):
            reached += len(data)
            if items := decode_lines(buffer.feed(data), dialect):
                yield Piece(items, position_at(file, buffer.offset), change)
                read_any = True
        rest = decode_lines(buffer.finish(), dialect) if final else []
        if rest or not read_any:
            yield Piece(rest, position_at(file, buffer.offset), change)


def items(path: Path, dialect: Dialect = SESSION, limits: Limits = LIMITS) -> Iterator[Item]:
    """Yield everything a file holds, once and for all: for those who will not come back for more."""
    with open_regular(path) as file:
        buffer, reached = LineBuffer(max_line=limits.line), 0
        while data := read_at(file, reached, limits.piece, path):
            reached += len(data)
            yield from decode_lines(buffer.feed(data), dialect)
        yield from decode_lines(buffer.finish(), dialect)


def decode_lines(lines: list[Line | LongLine], dialect: Dialect = SESSION) -> list[Item]:
    """Return what lines hold."""
    items: list[Item] = []
    add, decode = items.append, dialect.decode
    for line in lines:
        if type(line) is LongLine:
            add(BadLine(line.offset, line.length, f"too long: {line.length:,} bytes"))
            continue
        assert type(line) is Line
        try:
            add(Entry(line.offset, line.data, decode(line.data)))
        except UNDECODABLE:
            items += recover.items(bytes(line.data), line.offset, dialect)
    return items
