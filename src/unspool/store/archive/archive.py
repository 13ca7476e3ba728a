"""The archive: raw bytes of files kept after the files have gone. Frames in, bytes out, exactly as they were.

Rules
  1. Bytes are archived before the store says that they were read: a process killed in between archives them again, in
     the same place.
  2. Small frames at the end of a file are made one as more comes, so that a line a time does not cost a frame each;
     each byte is compressed anew a few times at most.
  3. What the archive has of a file is read in whole, or an error says what is missing.
  4. Frames follow each other without gap or overlap. What does not go on where the archive ends is not taken; the file
     is to be given whole then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from unspool.errors import NotFound, Unreadable, UnspoolError
from unspool.files.open import open_regular
from unspool.read.chunks import read_at
from unspool.store.archive.frames import FRAME, Frame, compress, damage, decompress


class Archived(NamedTuple):
    """A file of which the archive has something, as `sources` in `archive.sql`."""

    id: int
    home: str
    path: str
    generation: int
    kind: str
    project: str | None
    session_id: str | None
    agent_id: str | None
    device: int
    inode: int
    modified: int


_COLUMNS = ", ".join(Archived._fields)


class Archive:
    """The frames of many files."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database

    def put(self, about: Archived, frames: list[Frame], start: int, end: int, *, is_first: bool) -> bool:
        """Keep what was read of a file from `start` on; after `end` there is only a torn line.

        False: the archive lacks something before that, and nothing was kept (rule 4).
        """
        id = self._id(about)
        reached = self._cut(id, start) if is_first else self._reached(id)
        if reached < start or (frames and frames[0].start != reached):
            return False
        if is_first:
            frames = self._joined(id, frames, end)
        self.database.executemany(
            "INSERT INTO frames (source_id, start, length, data) VALUES (?, ?, ?, ?)",
            [(id, frame.start, frame.length, frame.data) for frame in frames],
        )
        return True

    def is_empty(self) -> bool:
        """Tell whether nothing was ever archived."""
        return self.database.execute("SELECT 1 FROM sources LIMIT 1").fetchone() is None

    def files(self) -> Iterator[Archived]:
        """Yield every file and generation, in the order they were seen."""
        for row in self.database.execute(f"SELECT {_COLUMNS} FROM sources ORDER BY id"):
            yield Archived(*row)

    def find(self, path: str, generation: int | None = None) -> Archived:
        """Return a file; no generation: the newest."""
        query = f"SELECT {_COLUMNS} FROM sources WHERE path = ? AND generation = coalesce(?, generation)"
        row = self.database.execute(f"{query} ORDER BY generation DESC LIMIT 1", (path, generation)).fetchone()
        if row is None:
            raise NotFound(f"not in the archive: `{path}`", hint="only what was there at a sync is archived")
        return Archived(*row)

    def read(
        self, about: Archived, holes: list[UnspoolError] | None = None, start: int = 0
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a file in pieces, from the one that has a place on, each with where it begins.

        They are whole lines but for the last.

        What is missing is an error; with a list for such errors, a blank line of that length.
        """
        reached = start
        query = "SELECT start, length, data FROM frames WHERE source_id = ? AND start + length > ? ORDER BY start"
        for begins, length, data in self.database.execute(query, (about.id, start)):
            if begins > reached:
                _missing(f"the archive lacks bytes {reached:,} to {begins:,} of `{about.path}`", holes)
                yield reached, _blank(begins - reached)
            try:
                lines = decompress(data)
            except damage() as error:
                _missing(f"the archive of `{about.path}` is damaged at {begins:,}: {error}", holes)
                lines = _blank(length)
            yield begins, lines
            reached = begins + length

    def length(self, about: Archived) -> int:
        """Return how many bytes of a file there are."""
        query = "SELECT coalesce(sum(length), 0) FROM frames WHERE source_id = ?"
        return int(self.database.execute(query, (about.id,)).fetchone()[0])

    def sizes(self) -> tuple[int, int]:
        """Return how many bytes are kept, and how many they take."""
        raw, kept = self.database.execute("SELECT sum(length), sum(length(data)) FROM frames").fetchone()
        return raw or 0, kept or 0

    def differs(self, about: Archived, end: int) -> bool:
        """Tell whether the file on disk has other bytes before an offset than the archive."""
        with open_regular(about.path) as file:
            for start, lines in self.read(about):
                kept = lines[: max(end - start, 0)]
                if kept and read_at(file, start, len(kept), about.path) != kept:
                    return True
        return False

    def moved(self, path: str, device: int, inode: int, modified: int) -> None:
        """Note that the newest generation of a file was written again, with the same bytes."""
        query = """UPDATE sources SET device = ?, inode = ?, modified = ? WHERE path = ? AND generation =
            (SELECT max(generation) FROM sources WHERE path = ?)"""
        self.database.execute(query, (device, inode, modified, path, path))

    def _id(self, about: Archived) -> int:
        names = _COLUMNS.removeprefix("id, ")
        marks = ", ".join("?" * (len(Archived._fields) - 1))
        update = "device = excluded.device, inode = excluded.inode, modified = excluded.modified"
        query = f"INSERT INTO sources ({names}) VALUES ({marks}) ON CONFLICT (path, generation) DO UPDATE SET {update}"
        (id,) = self.database.execute(f"{query} RETURNING id", about[1:]).fetchone()
        return int(id)

    def _reached(self, id: int) -> int:
        """Return where the frames of a file end."""
        row = self.database.execute(_LAST, (id,)).fetchone()
        return int(row[1] + row[2]) if row else 0

    def _cut(self, id: int, place: int) -> int:
        """Take away what is after a place; return where the frames end now.

        A process killed after it archived lines, and before the store said so, may have joined them to a frame.
        """
        self.database.execute("DELETE FROM frames WHERE source_id = ? AND start >= ?", (id, place))
        last = self.database.execute(_LAST, (id,)).fetchone()
        if last is None or last[1] + last[2] <= place:
            return self._reached(id)
        rowid, start, _, data = last
        try:
            lines = decompress(data)[: place - start]
        except damage():
            return int(start)
        change = "UPDATE frames SET length = ?, data = ? WHERE rowid = ?"
        self.database.execute(change, (len(lines), compress(lines), rowid))
        return place

    def _joined(self, id: int, frames: list[Frame], end: int) -> list[Frame]:
        """Join the first frame with small ones before it (rule 2), unless it holds a torn line."""
        if not frames or frames[0].start + frames[0].length > end:
            return frames
        first, *others = frames
        while before := self.database.execute(_LAST, (id,)).fetchone():
            rowid, start, length, data = before
            if length > 2 * first.length or length + first.length > FRAME or start + length != first.start:
                break
            try:
                lines = decompress(data) + decompress(first.data)
            except damage():  # damaged: it stays as it is, and costs no other
                break
            first = Frame(start, length + first.length, compress(lines))
            self.database.execute("DELETE FROM frames WHERE rowid = ?", (rowid,))
        return [first, *others]


_LAST = "SELECT rowid, start, length, data FROM frames WHERE source_id = ? ORDER BY start DESC LIMIT 1"


def _missing(words: str, holes: list[UnspoolError] | None) -> None:
    error = Unreadable(words, hint="the rest of it is still there: `unspool sync --rebuild` takes what can be read")
    if holes is None:
        raise error from None
    holes.append(error)


def _blank(length: int) -> bytes:
    return b" " * (length - 1) + b"\n"
