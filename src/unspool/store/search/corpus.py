"""The files that a search looks through, those on disk and those that only the archive has, and access to their lines.

Rules
  1. A `SearchedFile` is one generation of a file. The newest generation of a file on disk is read from the file itself.
  2. A `CorpusReader` belongs to one thread: a connection to the archive cannot be shared.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unspool.errors import NotFound
from unspool.files import open_regular
from unspool.read import Kind, Source, Tree
from unspool.store.database import IN_FOLDER, Roots, folder_parameters, open_archive
from unspool.store.sync.changes import INDEXED_KINDS

if TYPE_CHECKING:  # a search that the index answers reads some lines of files, and nothing else
    from unspool.read import LineChunk
    from unspool.store.access import StoreAccess
    from unspool.store.archive.archive import Archive

CHUNK_BYTES: Final = 1024 * 1024
"""Bytes that are searched at once: the fewer chunks, the fewer lines that span two."""
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a line that is held at most. A copy of `read.lines.MAX_LINE`: most searches need not load that module."""

_KINDS: Final = (*sorted(INDEXED_KINDS), Kind.TOOL_RESULT.value)
_SELECT: Final = """SELECT s.path, s.kind, s.project, s.session_id, s.agent_id, max(s.size, s.offset), s.id,
    s.generation, s.offset, coalesce(i.offset, 0), s.gone IS NOT NULL FROM"""
_JOIN_INDEXED: Final = "LEFT JOIN indexed i ON i.source_id = s.id AND i.generation = s.generation"


class SearchedFile(NamedTuple):
    """One generation of a file to search."""

    path: str
    kind: str
    project: str | None
    """The key of its project."""
    session_id: str | None
    agent_id: str | None
    size: int
    source_id: int = 0
    generation: int = 1
    read_to: int = 0
    """How far the store has read it."""
    indexed_to: int = 0
    """How far the index covers it."""
    is_archived: int = 0
    """1 if only the archive has it."""

    @property
    def has_lines(self) -> bool:
        """Whether it consists of lines; otherwise it is one text."""
        return self.kind in INDEXED_KINDS


class Corpus(NamedTuple):
    """What is searched: what a store has of some folders, or their files on disk."""

    roots: Roots
    database: sqlite3.Connection | None
    archive: Callable[[], Archive] | None
    """Opens the archive, each time with a new connection."""
    tree: Tree | None = None
    """The files on disk, if there is no database."""

    def files(self) -> list[SearchedFile]:
        """Return all files: those on disk, those that were deleted, and the earlier generations of both."""
        if self.database is not None:
            kinds = ", ".join(f"'{kind}'" for kind in _KINDS)
            return self._select(f"sources s {_JOIN_INDEXED} WHERE {IN_FOLDER} AND s.kind IN ({kinds})")
        assert self.tree is not None
        return list(map(_on_disk, self.tree.of(*(Kind(kind) for kind in _KINDS))))

    def unindexed_files(self) -> list[SearchedFile]:
        """Return the files that the store has read further than the index covers."""
        # The CROSS JOIN makes SQLite begin with `unindexed`, which has few rows.
        return self._select(f"unindexed u CROSS JOIN sources s ON s.id = u.source_id {_JOIN_INDEXED} WHERE {IN_FOLDER}")

    def file(self, source_id: int, generation: int) -> SearchedFile:
        """Return one generation of a file that the store has read."""
        query = f"sources s {_JOIN_INDEXED} WHERE s.id = :id"
        return next(file for file in self._select(query, {"id": source_id}) if file.generation == generation)

    def session_file(self, session_id: str, near: str) -> SearchedFile | None:
        """Return the file of a session: of several the one nearest to another path, preferably one on disk."""
        if self.database is not None:
            query = f"""sources s {_JOIN_INDEXED} WHERE s.session_id = :session AND s.kind = 'session'
                AND {IN_FOLDER} ORDER BY s.gone IS NOT NULL, s.path"""
            files = self._select(query, {**folder_parameters(self.roots), "session": session_id})
        else:
            assert self.tree is not None
            files = [_on_disk(one) for one in self.tree.of(Kind.SESSION) if one.session_id == session_id]
        return max(files, key=lambda file: len(os.path.commonpath([file.path, near])), default=None)

    def _select(self, tables: str, values: Mapping[str, Any] | None = None) -> list[SearchedFile]:
        """Return the files that a query selects, followed by their earlier generations."""
        assert self.database is not None
        rows = self.database.execute(f"{_SELECT} {tables}", values or folder_parameters(self.roots))
        files = list(map(SearchedFile._make, rows))
        earlier = []
        for newest in files:
            if newest.generation > 1:
                query = "SELECT generation, offset FROM indexed WHERE source_id = ? AND generation < ?"
                ends = dict(self.database.execute(query, (newest.source_id, newest.generation)).fetchall())
                for number in range(1, newest.generation):
                    end = ends.get(number, 0)
                    earlier.append(newest._replace(generation=number, read_to=end, indexed_to=end, is_archived=1))
        return files + earlier


def _on_disk(source: Source) -> SearchedFile:
    about = (source.project, source.session_id, source.agent_id)
    return SearchedFile(str(source.path), source.kind.value, *about, source.size)


def open_corpus(opened: StoreAccess) -> Corpus:
    """Return what is searched, by its store if it has one."""
    if opened.database is None:
        return Corpus(opened.roots, None, None, opened.tree)

    def archive() -> Archive:
        from unspool.store.archive.archive import Archive  # most searches need no archived file

        return Archive(open_archive(opened.folder))

    return Corpus(opened.roots, opened.database, archive)


class CorpusReader:
    """Reads searched files, from disk or from the archive."""

    def __init__(self, archive: Callable[[], Archive] | None) -> None:
        self._open_archive = archive
        self._opened: Archive | None = None
        self._frame: tuple[tuple[str, int, int], bytes] | None = None
        """The frame that was read last: hits are often neighbours."""

    def close(self) -> None:
        """Close the archive, if it was needed."""
        if self._opened is not None:
            self._opened.database.close()
            self._opened = None

    def lines(
        self, file: SearchedFile, start: int = 0, left_out: list[tuple[int, int]] | None = None
    ) -> Iterator[LineChunk]:
        """Yield the lines from an offset on, many at a time; those that are too long are added to `left_out`."""
        from unspool.read import LineChunk, ReadLimits, read_line_chunks

        if not file.is_archived:
            try:
                yield from read_line_chunks(file.path, ReadLimits(CHUNK_BYTES, MAX_LINE_BYTES), start, left_out)
            except NotFound:  # deleted since the store or the tree saw it
                if self._open_archive is None:
                    raise
            else:
                return
        for offset, data in self._archived_lines(file, start):
            yield LineChunk(offset, data, 0, len(data))

    def text(self, file: SearchedFile, limit: int) -> bytes:
        """Return the first bytes of a file, up to a limit."""
        if not file.is_archived:
            return self.bytes_between(file, 0, limit)
        return b"".join(data for _, data in self._archived_lines(file))[:limit]

    def line_at(self, file: SearchedFile, offset: int) -> bytes:
        """Return the line that begins at an offset; empty if neither the disk nor the archive has it."""
        try:
            if file.is_archived:
                return self._archived_line(file, offset)
            data = b""
            with open_regular(file.path) as opened:
                while piece := os.pread(opened, CHUNK_BYTES if data else 16 * 1024, offset + len(data)):
                    data += piece
                    if b"\n" in piece or len(data) > MAX_LINE_BYTES:
                        break
            return _first_line(data)
        except NotFound:
            return b""

    def bytes_between(self, file: SearchedFile, start: int, end: int) -> bytes:
        """Return some bytes of a file on disk."""
        with open_regular(file.path) as opened:
            return os.pread(opened, end - start, start)

    def chunks_before(self, file: SearchedFile, end: int) -> Iterator[bytes]:
        """Yield the bytes before an offset, the last first, in chunks that begin with a line."""
        if file.is_archived:
            for start, data in reversed(list(self._archived_lines(file))):
                if start < end:
                    yield data[: end - start]
            return
        with open_regular(file.path) as opened:
            rest = b""
            while end > 0:
                start = max(end - CHUNK_BYTES, 0)
                data = os.pread(opened, end - start, start) + rest
                first = data.find(b"\n") + 1 if start else 0
                rest, data, end = data[:first], data[first:], start
                yield data

    def _archived_lines(self, file: SearchedFile, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield what the archive has of a file; a line that was split to keep frames small is joined again."""
        try:
            archived = self._archive().find(file.path, file.generation)
        except NotFound:  # archiving was switched off
            return
        rest, rest_offset = b"", 0
        for offset, data in self._archive().read(archived, holes=[], start=start):
            if start > offset:
                data, offset = data[start - offset :], start
            if rest:
                data, offset = rest + data, rest_offset
                rest = b""
            if not data.endswith(b"\n") and len(data) <= MAX_LINE_BYTES:
                rest, rest_offset = data, offset
                continue
            yield offset, data
        if rest:
            yield rest_offset, rest

    def _archived_line(self, file: SearchedFile, offset: int) -> bytes:
        last = self._frame
        if last is not None and last[0][:2] == (file.path, file.generation):
            start, data = last[0][2], last[1]
            if start <= offset < start + len(data):
                return _first_line(data[offset - start :])
        query = "SELECT start FROM frames WHERE source_id = ? AND start <= ? ORDER BY start DESC LIMIT 1"
        archive = self._archive()
        id = archive.find(file.path, file.generation).id
        row = archive.database.execute(query, (id, offset)).fetchone()
        for start, data in self._archived_lines(file, row[0] if row else 0):
            self._frame = ((file.path, file.generation, start), data)
            return _first_line(data[offset - start :])
        return b""

    def _archive(self) -> Archive:
        if self._opened is None:
            if self._open_archive is None:
                raise NotFound("the store has no archive")
            self._opened = self._open_archive()
        return self._opened


def _first_line(data: bytes) -> bytes:
    return data[: data.find(b"\n") + 1 or len(data)]
