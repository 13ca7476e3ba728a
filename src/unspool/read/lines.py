"""Reads lines: splits bytes that come in pieces, reads a file in chunks of lines, keeps positions to resume from.

Nothing is decoded here. Apart from `tail.py`, which decodes lines: who only searches their text need not load that.

Rules
  1. A position is good only for the file it was made on: another inode (replaced), fewer bytes (truncated), or other
     bytes at the head or before the offset (rewritten) make it another file.
  2. A file is read up to the size it has when it is opened; a sparse file up to its first hole (`files/open.py`); and
     any file up to a line whose end is not found within `MAX_SEARCHED` bytes. What is not read is said, never dropped.
  3. A line is everything up to and including `\n`. Where the pieces fed to a `LineBuffer` begin and end does not
     matter: what it returns, with what `finish` returns, covers the bytes without gap or overlap.
  4. A line longer than a limit (`MAX_LINE`) is not held in memory: its offset and length are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool.errors import Unreadable
from unspool.files import data_end, file_identity, open_with_status, read_at, sparse_reason

MAX_LINE = 64 * 1024 * 1024
"""Of longer lines only offset and length are kept."""

MAX_SEARCHED = 1024 * 1024 * 1024
"""Bytes in which the end of a line is looked for; the longest lines of real sessions have 63 MB."""


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line, its end included. `data` is a view of the chunk it came in, or a copy if it spans several."""

    offset: int
    data: memoryview


class LongLine(msgspec.Struct, frozen=True, gc=False):
    """A line that is too long to be held in memory."""

    offset: int
    length: int


class LineBuffer:
    """Collects chunks of a stream and returns whole lines."""

    def __init__(self, offset: int = 0, max_line: int = MAX_LINE, max_searched: int = MAX_SEARCHED) -> None:
        self.offset = offset
        """Where the unfinished line begins: all lines before it have been returned."""
        self._max_line, self._max_searched = max_line, max_searched
        self._held = bytearray()
        self._length = 0
        """Bytes of the unfinished line so far, held or not."""
        self._left_out = False

    def feed(self, data: bytes) -> list[Line | LongLine]:
        """Add the next chunk and return the lines that end in it."""
        lines: list[Line | LongLine] = []
        find, start = data.find, 0  # local names: this loop runs once for each line of a file
        if self._length:
            start = find(b"\n") + 1
            self._hold(data[:start] if start else data)
            if not start:
                return lines
            lines += self._take()
        # Views and not copies: most lines are decoded once and dropped with the chunk.
        view, base, max_line = memoryview(data), self.offset - start, self._max_line
        while end := find(b"\n", start) + 1:
            if end - start > max_line:
                lines.append(LongLine(base + start, end - start))
            else:
                lines.append(Line(base + start, view[start:end]))
            start = end
        self.offset = base + start
        if start < len(data):
            self._hold(data[start:])
        return lines

    @property
    def is_endless(self) -> bool:
        """Whether the unfinished line is so long that its end is not looked for any further."""
        return self._length > self._max_searched

    def leave_out(self, length: int) -> None:
        """Count bytes as a part of the unfinished line that are not read."""
        self._length += length
        self._held = bytearray()
        self._left_out = True

    def finish(self) -> list[Line | LongLine]:
        """Return the unfinished line, if there is one."""
        return self._take() if self._length else []

    def _hold(self, data: bytes) -> None:
        self._length += len(data)
        if self._length > self._max_line:  # from here on only its length is counted
            self._held = bytearray()
        else:
            self._held += data

    def _take(self) -> list[Line | LongLine]:
        line: Line | LongLine = LongLine(self.offset, self._length)
        if self._length <= self._max_line and not self._left_out:
            line = Line(self.offset, memoryview(self._held))
        self.offset += self._length
        self._held, self._length = bytearray(), 0
        return [line]


class ReadLimits(NamedTuple):
    """How much is held in memory at once."""

    piece: int = 256 * 1024
    """Bytes per read."""
    line: int = MAX_LINE
    """Bytes of the longest line that is held."""
    searched: int = MAX_SEARCHED
    """Bytes in which the end of a line is looked for."""


LIMITS = ReadLimits()


class LineChunk(NamedTuple):
    """Whole lines, as a part of the bytes that were read."""

    offset: int
    """Where in the file `data` begins."""
    data: bytes
    start: int
    """Where in `data` the first line begins."""
    end: int
    """Where the last one ends."""


def read_line_chunks(
    path: Path | str, limits: ReadLimits = LIMITS, start: int = 0, left_out: list[tuple[int, int]] | None = None
) -> Iterator[LineChunk]:
    """Yield the lines of a file from a line's start on, many at a time.

    Lines longer than `limits.line` are left out; their offsets and lengths are added to `left_out`. A file that is not
    read to its end (rule 2) raises `Unreadable` after its lines.
    """
    file, status = open_with_status(path)
    try:
        # No read asks for more bytes than there are: allocating room for them takes time.
        reached, size = start, data_end(file, status)
        while reached < size and (data := read_at(file, reached, min(limits.piece, size - reached), path)):
            end = data.rfind(b"\n") + 1
            if not end and reached + len(data) < size:
                # Longer than a chunk: find its end first, then read it at once, so that it is held only once.
                del data
                length = _line_length(file, reached, min(size, reached + limits.searched + 1), path)
                if length > limits.searched:
                    reason = endless_reason(reached, status.st_size)
                    raise Unreadable(f"`{path}`: {reason}", reason=reason)
                if length <= limits.line:
                    yield _read_line(file, reached, length, path)
                elif left_out is not None:
                    left_out.append((reached, length))
                reached += length
                continue
            end = end or len(data)  # the last line may have no end
            yield LineChunk(reached, data, 0, end)
            reached += end
        if size < status.st_size:
            reason = sparse_reason(size, status.st_size)
            raise Unreadable(f"`{path}`: {reason}", reason=reason)
    finally:
        os.close(file)


def _line_length(file: int, offset: int, size: int, path: Path | str) -> int:
    """Return the length of the line that begins at `offset`, its end included, or of its part before `size`."""
    reached = offset
    while reached < size and (data := read_at(file, reached, min(LIMITS.piece, size - reached), path)):
        if end := data.find(b"\n") + 1:
            return reached + end - offset
        reached += len(data)
    return reached - offset


# A function of its own: a local in the generator would hold the line while the next one is read.
def _read_line(file: int, offset: int, length: int, path: Path | str) -> LineChunk:
    data = read_at(file, offset, length, path)
    return LineChunk(offset, data, 0, len(data))


def endless_reason(offset: int, size: int) -> str:
    """Return the words for a file that is read up to a line whose end was not found."""
    return f"read only up to byte {offset:,} of {size:,}: the next line is too long"


SAMPLE_SIZE = 4096
"""How many bytes at the head, and before the offset, are remembered by their hash."""


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


def detect_change(file: int, position: Position) -> Change:
    """Return what happened to an open file since a position was made in it."""
    if position == START:
        return Change.NEW
    now = os.fstat(file)
    if file_identity(now) != (position.device, position.inode):
        return Change.REPLACED
    if now.st_size < position.offset:
        return Change.TRUNCATED
    if _samples(file, position.offset) != (position.head, position.boundary):
        return Change.REWRITTEN
    return Change.SAME if now.st_size == position.offset else Change.GROWN


def position_at(file: int, offset: int, before: Position = START) -> Position:
    """Return the position at an offset of an open file; `before` is the position that the reading started from."""
    now = os.fstat(file)
    if has_head(before):
        boundary = _hash(os.pread(file, SAMPLE_SIZE, offset - SAMPLE_SIZE))
        return Position(offset, *file_identity(now), before.head, boundary)
    return Position(offset, *file_identity(now), *_samples(file, offset))


def has_head(position: Position) -> bool:
    """Tell whether a position has the hash of the whole head, so that it need not be read again."""
    return position.offset >= SAMPLE_SIZE


def position_from_data(data: bytes, offset: int, status: os.stat_result) -> Position:
    """Return the position at an offset of a file whose first bytes, up to the offset at least, are in memory."""
    length = min(SAMPLE_SIZE, offset)
    head, boundary = _hash(data[:length]), _hash(data[offset - length : offset])
    return Position(offset, *file_identity(status), head, boundary)


def _samples(file: int, offset: int) -> tuple[bytes, bytes]:
    length = min(SAMPLE_SIZE, offset)
    return _hash(os.pread(file, length, 0)), _hash(os.pread(file, length, offset - length))


def _hash(data: bytes) -> bytes:
    # Not `hashlib`, which would load OpenSSL: that takes as long as reading fifty files.
    from _blake2 import blake2b

    return blake2b(data, digest_size=16).digest()
