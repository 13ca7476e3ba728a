"""The lines of one file, read again from their places. In: a reader and a path. Out: items."""

from __future__ import annotations

from pathlib import Path

from unspool.format.codec import decode
from unspool.format.entry import BadLine, Entry, Item
from unspool.home import Reader
from unspool.read.lines import MAX_LINE, LineBuffer
from unspool.read.tail import decode_lines

_FIRST = 65_536
"""Bytes that hold most lines."""
_PIECE = 1_048_576
"""Bytes per read: a line too long to be held is not."""


class Lines:
    """A file of lines; of one that several sessions used, one session's own."""

    def __init__(self, reader: Reader, path: Path, only: str | None = None) -> None:
        self.reader = reader
        self.path = path
        self._only = only

    def between(self, start: int, end: int) -> list[Item]:
        """Return what stands between two places where lines begin."""
        buffer, found, reached = LineBuffer(start), list[Item](), start
        while reached < end and (data := self.reader.part(self.path, reached, min(_PIECE, end - reached))):
            reached += len(data)
            found += decode_lines(buffer.feed(data))
        return self.own([*found, *decode_lines(buffer.finish())])

    def at(self, offset: int) -> Item | None:
        """Return what begins at a place."""
        length = _FIRST
        data = self.reader.part(self.path, offset, length)
        while len(data) == length <= MAX_LINE and b"\n" not in data:
            length = min(length * 8, MAX_LINE + 1)
            data = self.reader.part(self.path, offset, length)
        line = data[: data.find(b"\n") + 1 or len(data)]
        if len(line) > MAX_LINE:
            return self._long(offset)
        return next(iter(decode(line, offset)), None) if line else None

    def _long(self, offset: int) -> BadLine:
        """Return a line too long to be held."""
        reached = offset
        while data := self.reader.part(self.path, reached, _PIECE):
            end = data.find(b"\n") + 1
            reached += end or len(data)
            if end:
                break
        return BadLine(offset, reached - offset, f"too long: {reached - offset:,} bytes")

    def entry(self, offset: int) -> Entry | None:
        """Return the line that begins at a place, if it is one."""
        item = self.at(offset) if offset >= 0 else None
        return item if isinstance(item, Entry) else None

    def own(self, items: list[Item]) -> list[Item]:
        """Return the items that are this session's."""
        if self._only is None:
            return items
        return [item for item in items if not isinstance(item, Entry) or item.record.session_id in (None, self._only)]
