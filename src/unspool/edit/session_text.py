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
    items: list[Item] = []
    # Looked up once: the loop runs for every line. `decode`, which can also repair a damaged line, is called only where
    # the plain decoder fails.
    add, decode_record, find, view = items.append, SESSION.decode, data.find, memoryview(data)
    # Not by a `LineBuffer`: all bytes are here, and lines of any length are taken.
    start, size = 0, len(data)
    while start < size:
        end = find(b"\n", start) + 1 or size
        line = view[start:end]
        try:
            add(Entry(start, line, decode_record(line)))
        except DECODE_ERRORS:
            items += decode(bytes(line), start)
        start = end
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
            if not gc.get_freeze_count():
                # Both together make all objects old ones: else the collector would visit every line as soon as it is
                # enabled (20 ms of the 700 of an edit of 20 MB).
                gc.freeze()
                gc.unfreeze()
            gc.enable()
