"""Reads and decodes one growing file: path and position in, entries and the next position out.

Rules
  1. A torn line is never returned: what has no line end yet stays for the next read, unless the caller says that the
     file is final. Then a whole document is an entry and anything else a bad line.
  2. Reading in several steps gives the same items as reading once.
  3. A file that is no longer the one a position was made on (`chunks.py`, rule 1) is read from the start again, and the
     piece says so.
  4. Memory is bounded by the chunk size and the longest line that is held, not by the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool.files import open_regular
from unspool.format import DECODE_ERRORS, SESSION, BadLine, Dialect, Entry, Item, recover_items
from unspool.read.chunks import LIMITS, START, Change, Position, ReadLimits, detect_change, position_at, read_at
from unspool.read.lines import Line, LineBuffer, LongLine


class Piece(NamedTuple):
    """Items of a file, and the position after them."""

    items: list[Item]
    position: Position
    change: Change


def pieces(
    path: Path,
    position: Position = START,
    *,
    final: bool = False,
    dialect: Dialect = SESSION,
    limits: ReadLimits = LIMITS,
) -> Iterator[Piece]:
    """Yield the items of a file after a position, at least one piece."""
    with open_regular(path) as file:
        change = detect_change(file, position)
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


# Not by way of `pieces`, which hashes a part of the file for the position after each piece.
def read_items(path: Path, dialect: Dialect = SESSION, limits: ReadLimits = LIMITS) -> Iterator[Item]:
    """Yield all items of a file, for callers that will not resume."""
    with open_regular(path) as file:
        buffer, reached = LineBuffer(max_line=limits.line), 0
        while data := read_at(file, reached, limits.piece, path):
            reached += len(data)
            yield from decode_lines(buffer.feed(data), dialect)
        yield from decode_lines(buffer.finish(), dialect)


def decode_lines(lines: list[Line | LongLine], dialect: Dialect = SESSION) -> list[Item]:
    """Decode lines into items."""
    items: list[Item] = []
    add, decode = items.append, dialect.decode  # the hot loop of every reader that decodes
    for line in lines:
        if type(line) is LongLine:
            add(BadLine(line.offset, line.length, f"too long: {line.length:,} bytes"))
            continue
        assert type(line) is Line
        try:
            add(Entry(line.offset, line.data, decode(line.data)))
        except DECODE_ERRORS:
            items += recover_items(bytes(line.data), line.offset, dialect)
    return items
