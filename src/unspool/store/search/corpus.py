"""Files in which something is looked for: those that are there, and those that only the archive has.

In: the store, or a tree. Out: haystacks, and what is in them: all lines, one line, the call that a result belongs to.

Rules
  1. A haystack is one generation of a file. Of a file that is there the newest is read from the file itself.
  2. A reader belongs to one thread: a connection to the archive cannot be shared.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from unspool.errors import NotFound
from unspool.files.open import open_regular
from unspool.read.scan import Kind, Tree
from unspool.store.sync.changes import SEARCHED, WITHIN, within

if TYPE_CHECKING:  # a search that the index answers reads some lines of files, and nothing else
    from unspool.read.chunks import Lines
    from unspool.store.archive.archive import Archive, Archived

PIECE: Final = 1024 * 1024
"""Bytes that are looked through at once: the fewer pieces, the fewer lines that span two."""
LONGEST: Final = 64 * 1024 * 1024
"""Bytes of a line that is held at most: `read.lines.MAX_LINE`."""

_KINDS: Final = (*sorted(SEARCHED), Kind.TOOL_RESULT.value)


class Haystack(NamedTuple):
    """A file to look in."""

    path: str
    kind: str
    project: str | None
    """The key of its project."""
    session_id: str | None
    agent_id: str | None
    modified: int
    size: int
    source_id: int = 0
    generation: int = 1
    reached: int = 0
    """How far the store has read it."""
    indexed: int = 0
    """How far the index knows it."""
    kept: int = 0
    """1: only the archive has it."""

    @property
    def has_lines(self) -> bool:
        """Whether it is a file of lines; else it is a text."""
        return self.kind in SEARCHED


_COLUMNS: Final = """s.path, s.kind, s.project, s.session_id, s.agent_id, s.modified, max(s.size, s.offset), s.id,
    s.generation, s.offset, coalesce(i.offset, 0), s.gone IS NOT NULL"""
_INDEXED: Final = "LEFT JOIN indexed i ON i.source_id = s.id AND i.generation = s.generation"


def in_store(database: sqlite3.Connection, root: Path) -> list[Haystack]:
    """Return what the store knows of a folder: files that are there, that were there, and as they were before."""
    kinds = ", ".join(f"'{kind}'" for kind in _KINDS)
    query = f"SELECT {_COLUMNS} FROM sources s {_INDEXED} WHERE {WITHIN} AND s.kind IN ({kinds})"
    found = list(map(Haystack._make, database.execute(query, within(root))))
    return [*found, *(earlier for one in found if one.generation > 1 for earlier in _earlier(database, one))]


def one_in_store(database: sqlite3.Connection, source_id: int, generation: int) -> Haystack:
    """Return one generation of a file that the store knows."""
    query = f"SELECT {_COLUMNS} FROM sources s {_INDEXED} WHERE s.id = ?"
    newest = Haystack._make(database.execute(query, (source_id,)).fetchone())
    return newest if newest.generation == generation else _earlier(database, newest)[generation - 1]


def behind_in_store(database: sqlite3.Connection, root: Path) -> list[Haystack]:
    """Return the files of a folder that the store has read further than the index knows them."""
    # A CROSS JOIN has SQLite begin with the few.
    query = f"""SELECT {_COLUMNS} FROM unindexed u CROSS JOIN sources s ON s.id = u.source_id {_INDEXED}
        WHERE {WITHIN}"""
    found = list(map(Haystack._make, database.execute(query, within(root))))
    return [*found, *(earlier for one in found if one.generation > 1 for earlier in _earlier(database, one))]


def session_in_store(database: sqlite3.Connection, root: Path, session_id: str, near: str) -> Haystack | None:
    """Return the file of a session: of several the one nearest to another file, rather one that is there."""
    query = f"""SELECT {_COLUMNS} FROM sources s {_INDEXED}
        WHERE s.session_id = :session AND s.kind = 'session' AND {WITHIN} ORDER BY s.gone IS NOT NULL, s.path"""
    found = map(Haystack._make, database.execute(query, {**within(root), "session": session_id}))
    return _nearest(found, near)


def session_in_tree(haystacks: list[Haystack], session_id: str, near: str) -> Haystack | None:
    """Return the same of a tree."""
    return _nearest((one for one in haystacks if one.kind == "session" and one.session_id == session_id), near)


def _nearest(found: Iterable[Haystack], near: str) -> Haystack | None:
    return max(found, key=lambda one: len(os.path.commonpath([one.path, near])), default=None)


def _earlier(database: sqlite3.Connection, newest: Haystack) -> list[Haystack]:
    """Return a file as it was before it became another one."""
    query = "SELECT generation, offset FROM indexed WHERE source_id = ? AND generation < ?"
    ends = dict(database.execute(query, (newest.source_id, newest.generation)).fetchall())
    return [
        newest._replace(generation=number, reached=ends.get(number, 0), indexed=ends.get(number, 0), kept=1)
        for number in range(1, newest.generation)
    ]


def in_tree(tree: Tree) -> list[Haystack]:
    """Return what there is in a tree."""
    sources = tree.of(*(Kind(kind) for kind in _KINDS))
    return [
        Haystack(str(one.path), one.kind.value, one.project, one.session_id, one.agent_id, one.modified, one.size)
        for one in sources
    ]


class Reader:
    """Reads haystacks, wherever their bytes are."""

    def __init__(self, archive: Callable[[], Archive] | None) -> None:
        self._open = archive
        self._opened: Archive | None = None
        self._frame: tuple[tuple[str, int, int], bytes] | None = None
        """The frame that was read last: hits are often neighbours."""

    def close(self) -> None:
        """Close the archive, if it was needed."""
        if self._opened is not None:
            self._opened.database.close()
            self._opened = None

    def lines(
        self, haystack: Haystack, start: int = 0, left_out: list[tuple[int, int]] | None = None
    ) -> Iterator[Lines]:
        """Yield the lines from a line's start on, many at a time; the list is told of those that are too long."""
        from unspool.read.chunks import Limits, Lines, whole_lines

        if not haystack.kept:
            try:
                yield from whole_lines(haystack.path, Limits(PIECE, LONGEST), start, left_out)
            except NotFound:  # deleted this moment
                if self._open is None:
                    raise
            else:
                return
        for offset, data in self._kept(haystack, start):
            yield Lines(offset, data, 0, len(data))

    def whole(self, haystack: Haystack, limit: int) -> bytes:
        """Return the first bytes of a text, up to a limit."""
        if not haystack.kept:
            return self.window(haystack, 0, limit)
        return b"".join(data for _, data in self._kept(haystack))[:limit]

    def line_at(self, haystack: Haystack, offset: int) -> bytes:
        """Return the line that begins at an offset; it is nothing if nobody has it any more."""
        try:
            if not haystack.kept:
                return _line_in(haystack.path, offset)
            return self._kept_line(haystack, offset)
        except NotFound:
            return b""

    def window(self, haystack: Haystack, start: int, end: int) -> bytes:
        """Return some bytes of a file that is there."""
        with open_regular(haystack.path) as file:
            return os.pread(file, end - start, start)

    def before(self, haystack: Haystack, end: int) -> Iterator[bytes]:
        """Yield the bytes before an offset, the last first, in pieces that begin where a line does."""
        if haystack.kept:
            for start, data in reversed(list(self._kept(haystack))):
                if start < end:
                    yield data[: end - start]
            return
        with open_regular(haystack.path) as file:
            held = b""
            while end > 0:
                start = max(end - PIECE, 0)
                data = os.pread(file, end - start, start) + held
                first = data.find(b"\n") + 1 if start else 0
                held, data, end = data[:first], data[first:], start
                yield data

    def _kept(self, haystack: Haystack, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield what the archive has of a file; a line that was cut to keep frames small is put together again."""
        try:
            about = self._about(haystack)
        except NotFound:  # the archive was off
            return
        held, begins = b"", 0
        for offset, data in self._archived().read(about, holes=[], start=start):
            if start > offset:
                data, offset = data[start - offset :], start
            if held:
                data, offset = held + data, begins
                held = b""
            if not data.endswith(b"\n") and len(data) <= LONGEST:
                held, begins = data, offset
                continue
            yield offset, data
        if held:
            yield begins, held

    def _kept_line(self, haystack: Haystack, offset: int) -> bytes:
        known = self._frame
        if known is not None and known[0][:2] == (haystack.path, haystack.generation):
            start, data = known[0][2], known[1]
            if start <= offset < start + len(data):
                return _first_line(data[offset - start :])
        query = "SELECT start FROM frames WHERE source_id = ? AND start <= ? ORDER BY start DESC LIMIT 1"
        about = self._about(haystack)
        row = self._archived().database.execute(query, (about.id, offset)).fetchone()
        for start, data in self._kept(haystack, row[0] if row else 0):
            self._frame = ((haystack.path, haystack.generation, start), data)
            return _first_line(data[offset - start :])
        return b""

    def _about(self, haystack: Haystack) -> Archived:
        return self._archived().find(haystack.path, haystack.generation)

    def _archived(self) -> Archive:
        if self._opened is None:
            if self._open is None:
                raise NotFound("there is no archive")
            self._opened = self._open()
        return self._opened


def _line_in(path: str, offset: int) -> bytes:
    held = b""
    with open_regular(path) as file:
        while data := os.pread(file, PIECE if held else 16 * 1024, offset + len(held)):
            held += data
            if b"\n" in data or len(held) > LONGEST:
                break
    return _first_line(held)


def _first_line(data: bytes) -> bytes:
    return data[: data.find(b"\n") + 1 or len(data)]
