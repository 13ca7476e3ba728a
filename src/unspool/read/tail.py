"""One growing file: path and position in, entries and next position out.

Rules
  1. A torn line is never returned: what has no line end yet stays for the next read, unless the caller says the
     file is final. Then a whole document is an entry and anything else a bad line.
  2. Reading in several goes gives the same items as reading once.
  3. A position is good only for the file it was made on: another inode (replaced), fewer bytes (truncated), or
     other bytes at the head or before the offset (rewritten) start again at zero, and the piece says so.
  4. Memory is bounded by the piece size and the longest line that is held, not by the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool.format import recover
from unspool.format.codec import SESSION
from unspool.format.entry import BadLine, Dialect, Entry, Item
from unspool.format.shape import UNDECODABLE
from unspool.read.files import open_regular
from unspool.read.lines import Line, LineBuffer, LongLine
from unspool.read.text import LIMITS, Limits, read_at

SAMPLE = 4096
"""How many bytes of the head, and before the offset, are remembered by their hash."""


class Change(Enum):
    """What happened to a file since a position in it."""

    NEW = "new"
    SAME = "same"
    GROWN = "grown"
    TRUNCATED = "truncated"
    REPLACED = "replaced"
    REWRITTEN = "rewritten"


class Position(msgspec.Struct, frozen=True):
    """How far a file was read, and enough to notice that it is no longer that file."""

    offset: int = 0
    device: int = 0
    inode: int = 0
    head: bytes = b""
    """Hash of the first bytes, at most `SAMPLE` and none after the offset."""
    boundary: bytes = b""
    """Hash of the last bytes before the offset."""


START = Position()


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


def changed(file: int, position: Position) -> Change:
    """Return what happened to an open file since a position in it."""
    if position == START:
        return Change.NEW
    now = os.fstat(file)
    if (now.st_dev, now.st_ino) != (position.device, position.inode):
        return Change.REPLACED
    if now.st_size < position.offset:
        return Change.TRUNCATED
    if _samples(file, position.offset) != (position.head, position.boundary):
        return Change.REWRITTEN
    return Change.SAME if now.st_size == position.offset else Change.GROWN


def position_at(file: int, offset: int) -> Position:
    """Return where a reading of an open file that got this far may go on."""
    now = os.fstat(file)
    return Position(offset, now.st_dev, now.st_ino, *_samples(file, offset))


def position_in(data: bytes, offset: int, status: os.stat_result) -> Position:
    """Return the same for a file whose first bytes, up to the offset at least, are at hand."""
    length = min(SAMPLE, offset)
    head, boundary = _hash(data[:length]), _hash(data[offset - length : offset])
    return Position(offset, status.st_dev, status.st_ino, head, boundary)


def _samples(file: int, offset: int) -> tuple[bytes, bytes]:
    length = min(SAMPLE, offset)
    return _hash(os.pread(file, length, 0)), _hash(os.pread(file, length, offset - length))


def _hash(data: bytes) -> bytes:
    import hashlib  # only for those who will come back: it takes as long to load as fifty files to read

    return hashlib.blake2b(data, digest_size=16).digest()
