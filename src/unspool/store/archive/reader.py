"""Reads sessions whose files have gone from the archive, as if the files were still there.

In: the store, the archive and folders. Out: a `Tree` with the files that have gone, and a `Reader` that reads them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from unspool.errors import NotFound
from unspool.format import Item
from unspool.home import Reader
from unspool.read import Kind, LineBuffer, LineChunk, Source, Tree, decode_lines, scan, scan_all
from unspool.store.archive.archive import Archive
from unspool.store.database import IN_FOLDER, Roots, folder_parameters, list_roots

_SOURCES = "SELECT path, kind, max(size, offset), modified, project, session_id, agent_id, device, inode FROM sources"


class ArchiveReader(Reader):
    """Reads files, and from the archive those that have gone."""

    def __init__(self, open_archive: Callable[[], Archive]) -> None:
        self._open_archive = open_archive  # most commands never need it

    def pieces(self, path: Path) -> Iterator[bytes]:
        """Yield the bytes of a file."""
        try:
            yield from super().pieces(path)
        except NotFound as missing:
            yield from (data for _, data in self._read(path, missing))

    def chunks(self, path: Path) -> Iterator[LineChunk]:
        """Yield the whole lines of a file, many at a time."""
        try:
            yield from super().chunks(path)
        except NotFound as missing:
            # A frame begins with a line (`store/sync/read_file.py`, rule 4).
            yield from (LineChunk(start, data, 0, len(data)) for start, data in self._read(path, missing))

    def part(self, path: Path, start: int, length: int) -> bytes:
        """Return so many bytes of a file from a place on; the frames of the archive before that place are not read."""
        try:
            return super().part(path, start, length)
        except NotFound as missing:
            content = b""
            for begins, data in self._read(path, missing, start):
                content += data[max(start - begins, 0) :]
                if len(content) >= length:
                    break
            return content[:length]

    def items(self, path: Path) -> Iterator[Item]:
        """Yield everything in a file of lines."""
        if path.exists():
            yield from super().items(path)
            return
        buffer = LineBuffer()
        for data in self.pieces(path):
            yield from decode_lines(buffer.feed(data))
        yield from decode_lines(buffer.finish())

    def _read(self, path: Path, missing: NotFound, start: int = 0) -> Iterator[tuple[int, bytes]]:
        archive = self._open_archive()
        try:
            file = archive.find(str(path))
        except NotFound:
            raise missing from None  # the error that names the file, not the archive
        return archive.read(file, start=start)


def scan_with_archive(database: sqlite3.Connection, roots: Roots) -> Tree:
    """Return what some folders hold and what they held."""
    tree = scan_all(list_roots(roots))
    there = {source.place for source in tree.sources}
    gone = [source for source in read_gone_sources(database, roots) if source.place not in there]
    return tree._replace(sources=tuple(sorted([*tree.sources, *gone], key=lambda source: source.place)))


def find_session_files(database: sqlite3.Connection, roots: Roots, id: str) -> Tree:
    """Return the files of one session, there still or not, without looking at all the others.

    What the store does not know yet is looked for: in the session's own folder, and if the session is new, everywhere.
    """
    query = f"""{_SOURCES}
        WHERE {IN_FOLDER} AND (session_id = :id OR id IN (SELECT source_id FROM agents WHERE session_id = :id))"""
    rows = database.execute(query, {**folder_parameters(roots), "id": id})
    sources = {path: Source(path, Kind(kind), *rest) for path, kind, *rest in rows}
    sessions = [source for source in sources.values() if source.kind is Kind.SESSION and source.session_id == id]
    if not sessions:
        tree = scan_all(list_roots(roots))
        found = {source.place: source for source in tree.sources if id in (source.session_id, source.path.stem)}
        every = (sources | found).values()  # what the store knows of them may be in the archive only
        return tree._replace(sources=tuple(sorted(every, key=lambda source: source.place)))
    for session in sessions:
        folder = session.path.with_suffix("")
        if folder.is_dir() and not folder.is_symlink():
            sources |= {source.place: source._replace(session_id=id) for source in scan(folder).sources}
    files = tuple(sorted(sources.values(), key=lambda source: source.place))
    root, *others = list_roots(roots)
    return Tree(root, files, others=tuple(others))


def find_readable_sessions(
    database: sqlite3.Connection, roots: Roots, ids: Iterable[str], archive: Callable[[], Archive]
) -> set[str]:
    """Return those of some sessions that can be opened: their file is there, or the archive has it.

    The store still knows what a session cost whose file was deleted while archiving was off.
    """
    query = f"""SELECT path, gone IS NULL FROM sources WHERE {IN_FOLDER} AND kind IN ('session', 'agent')
        AND (session_id = :id OR id IN (SELECT source_id FROM agents WHERE session_id = :id)) ORDER BY kind DESC"""
    readable = set()
    for id in set(ids):
        files = database.execute(query, {**folder_parameters(roots), "id": id}).fetchall()
        own = [file for file in files if Path(file[0]).stem == id] or files  # an agent stands for a missing session
        if any(is_there or _is_archived(archive(), path) for path, is_there in own):
            readable.add(id)
    return readable


def _is_archived(archive: Archive, path: str) -> bool:
    try:
        return next(archive.read(archive.find(path), holes=[]), None) is not None
    except NotFound:
        return False


def read_gone_sources(database: sqlite3.Connection, roots: Roots) -> Iterator[Source]:
    """Yield the files that were in some folders, as they last were."""
    query = f"{_SOURCES} WHERE {IN_FOLDER} AND gone IS NOT NULL ORDER BY path"
    for path, kind, *rest in database.execute(query, folder_parameters(roots)):
        yield Source(path, Kind(kind), *rest)
