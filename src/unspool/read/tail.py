"""Reads and decodes one growing file: path and position in, entries and the next position out.

Rules
  1. A torn line is never returned: what has no line end yet stays for the next read, unless the caller says that the
     file is final. Then a whole document is an entry and anything else a bad line.
  2. Reading in several steps gives the same items as reading once.
  3. A file that is no longer the one a position was made on (`lines.py`, rule 1) is read from the start again, and the
     piece says so.
  4. Memory is bounded by the chunk size and the longest line that is held, not by the file.
  5. What is not read of a file (`lines.py`, rule 2) is one bad line at its end if the file is final. Else it stays for
     the next read, like a torn line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool.files import data_end, open_regular, read_at
from unspool.format import DECODE_ERRORS, SESSION, BadLine, Dialect, Entry, Item
from unspool.read.lines import (
    LIMITS,
    MAX_SEARCHED,
    START,
    Change,
    Line,
    LineBuffer,
    LongLine,
    Position,
    ReadLimits,
    detect_change,
    position_at,
)


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
        status = os.fstat(file)
        change, end = detect_change(file, position), _end(file, status)
        offset = position.offset if change in (Change.SAME, Change.GROWN) else 0
        buffer, reached, read_any = LineBuffer(offset, limits.line, limits.searched), offset, False
        while data := _read_next(file, reached, end, limits, path):
            reached += len(data)
            if items := decode_lines(buffer.feed(data), dialect):
                yield Piece(items, position_at(file, buffer.offset), change)
                read_any = True
            if buffer.is_endless:
                break
        _leave_out_rest(buffer, reached, end, status)
        rest = decode_lines(buffer.finish(), dialect) if final else []
        if rest or not read_any:
            yield Piece(rest, position_at(file, buffer.offset), change)


# Not by way of `pieces`, which hashes a part of the file for the position after each piece.
def read_items(path: Path, dialect: Dialect = SESSION, limits: ReadLimits = LIMITS) -> Iterator[Item]:
    """Yield all items of a file, for callers that will not resume."""
    with open_regular(path) as file:
        status = os.fstat(file)
        buffer, reached, end = LineBuffer(0, limits.line, limits.searched), 0, _end(file, status)
        while data := _read_next(file, reached, end, limits, path):
            reached += len(data)
            yield from decode_lines(buffer.feed(data), dialect)
            if buffer.is_endless:
                break
        _leave_out_rest(buffer, reached, end, status)
        yield from decode_lines(buffer.finish(), dialect)


def _end(file: int, status: os.stat_result) -> int:
    # Files of the system (`/proc`) have no size and content all the same.
    return data_end(file, status) if status.st_size else MAX_SEARCHED


def _read_next(file: int, reached: int, end: int, limits: ReadLimits, path: Path) -> bytes:
    return read_at(file, reached, min(limits.piece, end - reached), path) if reached < end else b""


def _leave_out_rest(buffer: LineBuffer, reached: int, end: int, status: os.stat_result) -> None:
    """Make what is not read of a file a part of its last line."""
    if buffer.is_endless or end < status.st_size:
        buffer.leave_out(max(status.st_size - reached, 0))


def _long_reason(length: int) -> str:
    # Longer ones are not lines: it is what was left out at the end of a file.
    return f"too long: {length:,} bytes" if length <= MAX_SEARCHED else f"not read: {length:,} bytes up to the end"


def decode_lines(lines: list[Line | LongLine], dialect: Dialect = SESSION) -> list[Item]:
    """Decode lines into items."""
    items: list[Item] = []
    add, decode = items.append, dialect.decode  # the hot loop of every reader that decodes
    for line in lines:
        if type(line) is LongLine:
            add(BadLine(line.offset, line.length, _long_reason(line.length)))
            continue
        assert type(line) is Line
        try:
            add(Entry(line.offset, line.data, decode(line.data)))
        except DECODE_ERRORS:
            from unspool.format import recover_items  # start-up: most files have no damaged line

            items += recover_items(bytes(line.data), line.offset, dialect)
    return items
