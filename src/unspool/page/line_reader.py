"""Reads lines of one session file again from their offsets, and returns them as items."""

from __future__ import annotations

from pathlib import Path

from unspool.format import BadLine, Entry, Item, decode
from unspool.home import Reader
from unspool.read import MAX_LINE, MAX_SEARCHED, LineBuffer, decode_lines

_FIRST_BYTES = 65_536
"""Enough for most lines."""
_PIECE_BYTES = 1_048_576
"""Bytes of one read: a line that is too long to be held in memory never is."""
MAX_HELD_BYTES = 16_777_216
"""After so many bytes of lines no further range is kept."""


class LineReader:
    """Reads the lines of a file; of a file that several sessions used, only those of one session."""

    def __init__(self, reader: Reader, path: Path, session_id: str | None = None) -> None:
        self.reader = reader
        self.path = path
        self._session_id = session_id
        self._held: dict[int, Item] | None = None
        self._held_bytes = 0

    def hold(self) -> None:
        """Keep the items of ranges that are read from now on, up to a limit, and forget those kept before.

        For a reader that opens every row of a batch: each line would otherwise be read and decoded three more times.
        """
        self._held, self._held_bytes = {}, 0

    def read_range(self, start: int, end: int) -> list[Item]:
        """Return the items between two offsets at which lines begin."""
        buffer, items, reached = LineBuffer(start), list[Item](), start
        while reached < end and (data := self.reader.part(self.path, reached, min(_PIECE_BYTES, end - reached))):
            reached += len(data)
            items += decode_lines(buffer.feed(data))
        items = self.keep_own([*items, *decode_lines(buffer.finish())])
        if self._held is not None and self._held_bytes < MAX_HELD_BYTES:
            self._held_bytes += end - start
            self._held |= {item.offset: item for item in items}
        return items

    def read_item(self, offset: int) -> Item | None:
        """Return the item that begins at an offset."""
        if self._held is not None and (held := self._held.get(offset)) is not None:
            return held
        length = _FIRST_BYTES
        data = self.reader.part(self.path, offset, length)
        while len(data) == length <= MAX_LINE and b"\n" not in data:
            length = min(length * 8, MAX_LINE + 1)
            data = self.reader.part(self.path, offset, length)
        line = data[: data.find(b"\n") + 1 or len(data)]
        if len(line) > MAX_LINE:
            return self._measure_long_line(offset)
        return next(iter(decode(line, offset)), None) if line else None

    def read_entry(self, offset: int) -> Entry | None:
        """Return the entry that begins at an offset, if there is one."""
        item = self.read_item(offset) if offset >= 0 else None
        return item if isinstance(item, Entry) else None

    def keep_own(self, items: list[Item]) -> list[Item]:
        """Return the items that belong to this session."""
        if self._session_id is None:
            return items
        own = (None, self._session_id)
        return [item for item in items if not isinstance(item, Entry) or item.record.session_id in own]

    def _measure_long_line(self, offset: int) -> BadLine:
        reached, last = offset, offset + MAX_SEARCHED
        while reached < last and (data := self.reader.part(self.path, reached, _PIECE_BYTES)):
            end = data.find(b"\n") + 1
            reached += end or len(data)
            if end:
                break
        return BadLine(offset, reached - offset, f"too long: {reached - offset:,} bytes")
