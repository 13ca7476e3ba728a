"""Splits a stream of bytes into lines. Pure: no files, no JSON.

Rules
  1. A line is everything up to and including `\n`. Where the chunks fed in begin and end does not matter.
  2. A line longer than `max_line` is not held in memory: it comes out as its offset and length.
  3. The lines returned, with what `finish` returns, cover the bytes fed in without gap or overlap.
  4. The end of a line is not looked for without end: after `MAX_SEARCHED` bytes the reader stops (`is_endless`). The
     line, and whatever follows it, is not read.
"""

from __future__ import annotations

import msgspec

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
