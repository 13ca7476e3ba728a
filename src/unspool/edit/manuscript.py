"""A session file as an editor sees it: its bytes, and the lines they are.

Rules
  1. The items cover the bytes without gap or overlap, so that what is left alone is written back as it was.
  2. Lines of any length are held: an editor that dropped one would lose it.
"""

from __future__ import annotations

import msgspec

from unspool.format.codec import SESSION, decode
from unspool.format.entry import BadLine, Entry, Item
from unspool.format.shape import UNDECODABLE
from unspool.read.lines import Line, LineBuffer

_ANY_LENGTH = 1 << 62


class Manuscript(msgspec.Struct, frozen=True):
    """A session's file, read."""

    id: str
    """The session's id: the name of its file."""
    data: bytes
    items: tuple[Item, ...]
    entries: tuple[Entry, ...]

    @property
    def torn(self) -> BadLine | None:
        """The unfinished line at the end, if there is one: no line end, and no whole document."""
        last = self.items[-1] if self.items else None
        return last if isinstance(last, BadLine) and not self.data.endswith(b"\n") else None


def read(id: str, data: bytes) -> Manuscript:
    """Return what a file holds."""
    buffer = LineBuffer(max_line=_ANY_LENGTH)
    items: list[Item] = []
    add, typed = items.append, SESSION.decode
    for line in (*buffer.feed(data), *buffer.finish()):
        assert isinstance(line, Line)
        try:
            add(Entry(line.offset, line.data, typed(line.data)))
        except UNDECODABLE:
            items += decode(bytes(line.data), line.offset)
    entries = tuple(item for item in items if type(item) is Entry)
    return Manuscript(id, data, tuple(items), entries)
