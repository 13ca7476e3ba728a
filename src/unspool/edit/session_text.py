"""Reads a session file's bytes into lines: records, blank lines and bad lines.

Rules
  1. The items cover the bytes without gap or overlap, so that what an edit leaves alone is written back byte for byte.
  2. Lines of any length are held: an editor that dropped a long one would lose it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from unspool.format import DECODE_ERRORS, SESSION, BadLine, Entry, Item, decode
from unspool.read import Line, LineBuffer

_ANY_LENGTH = 1 << 62


class SessionText(msgspec.Struct, frozen=True):
    """The content of a session file, in memory."""

    id: str
    """The session's id: the name of its file."""
    data: bytes
    items: tuple[Item, ...]
    entries: tuple[Entry, ...]

    @property
    def unfinished_line(self) -> BadLine | None:
        """The line at the end that was not written completely: no line end, and no whole JSON document."""
        last = self.items[-1] if self.items else None
        return last if isinstance(last, BadLine) and not self.data.endswith(b"\n") else None


def parse_session_text(id: str, data: bytes) -> SessionText:
    """Parse the bytes of a session file."""
    buffer = LineBuffer(max_line=_ANY_LENGTH)
    items: list[Item] = []
    # Looked up once: the loop runs for every line. `decode`, which can also repair a damaged line, is called only where
    # the plain decoder fails.
    add, decode_record = items.append, SESSION.decode
    for line in (*buffer.feed(data), *buffer.finish()):
        assert isinstance(line, Line)
        try:
            add(Entry(line.offset, line.data, decode_record(line.data)))
        except DECODE_ERRORS:
            items += decode(bytes(line.data), line.offset)
    entries = tuple(item for item in items if type(item) is Entry)
    return SessionText(id, data, tuple(items), entries)


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause the garbage collector while many lines are held: it would visit each of them often, and free nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
