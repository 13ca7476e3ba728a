"""Sessions as the store keeps them: the files that are there, and in the archive those that are not any more.

In: the store, the archive and a folder. Out: a `Tree` with the files that have gone, and a `Reader` that reads them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from unspool.errors import NotFound
from unspool.format.entry import Item
from unspool.home import Reader
from unspool.read.chunks import Lines
from unspool.read.lines import LineBuffer
from unspool.read.scan import Kind, Source, Tree, scan
from unspool.read.tail import decode_lines
from unspool.store.archive.archive import Archive
from unspool.store.sync.changes import WITHIN, within
from unspool.store.usage.ledger_files import Text, text_of_file


class KeptReader(Reader):
    """Reads files, and from the archive those that have gone."""

    def __init__(self, archive: Callable[[], Archive]) -> None:
        self._archive = archive
        """Opens the archive: most commands never need it."""

    def pieces(self, path: Path) -> Iterator[bytes]:
        """Yield the bytes of a file."""
        try:
            yield from super().pieces(path)
        except NotFound as missing:
            archive = self._archive()
            try:
                about = archive.find(str(path))
            except NotFound:
                raise missing from None
            for _, data in archive.read(about):
                yield data

    def part(self, path: Path, start: int, length: int) -> bytes:
        """Return the bytes of a file from a place on; from the archive without those before it."""
        try:
            return super().part(path, start, length)
        except NotFound as missing:
            archive = self._archive()
            try:
                about = archive.find(str(path))
            except NotFound:
                raise missing from None
            found = b""
            for begins, data in archive.read(about, start=start):
                found += data[max(start - begins, 0) :]
                if len(found) >= length:
                    break
            return found[:length]

    def items(self, path: Path) -> Iterator[Item]:
        """Yield everything in a file of lines."""
        if path.exists():
            yield from super().items(path)
            return
        buffer = LineBuffer()
        for data in self.pieces(path):
            yield from decode_lines(buffer.feed(data))
        yield from decode_lines(buffer.finish())


def kept_tree(database: sqlite3.Connection, root: Path) -> Tree:
    """Return what a folder holds and what it held."""
    tree = scan(root) if root.exists() else Tree(root, ())
    there = {source.place for source in tree.sources}
    gone = [source for source in gone_sources(database, root) if source.place not in there]
    return tree._replace(sources=tuple(sorted([*tree.sources, *gone], key=lambda source: source.place)))


def session_tree(database: sqlite3.Connection, root: Path, id: str) -> Tree:
    """Return the files of one session, there still or not, without looking at all the others.

    What the store does not know yet is looked for: in the session's own folder, and if the session is new, everywhere.
    """
    query = f"""SELECT path, kind, max(size, offset), modified, project, session_id, agent_id, device, inode
        FROM sources
        WHERE {WITHIN} AND (session_id = :id OR id IN (SELECT source_id FROM agents WHERE session_id = :id))"""
    rows = database.execute(query, {**within(root), "id": id})
    found = {path: Source(path, Kind(kind), *rest) for path, kind, *rest in rows}
    sessions = [source for source in found.values() if source.kind is Kind.SESSION and source.session_id == id]
    if not sessions:
        whole = scan(root) if root.exists() else Tree(root, ())
        return whole._replace(sources=tuple(source for source in whole.sources if source.session_id == id))
    for session in sessions:
        folder = session.path.with_suffix("")
        if folder.is_dir() and not folder.is_symlink():
            found |= {source.place: source._replace(session_id=id) for source in scan(folder).sources}
    return Tree(root, tuple(sorted(found.values(), key=lambda source: source.place)))


def gone_sources(database: sqlite3.Connection, root: Path) -> Iterator[Source]:
    """Yield the files that were in a folder, as they last were."""
    query = f"""SELECT path, kind, max(size, offset), modified, project, session_id, agent_id, device, inode
        FROM sources
        WHERE {WITHIN} AND gone IS NOT NULL ORDER BY path"""
    for path, kind, *rest in database.execute(query, within(root)):
        yield Source(path, Kind(kind), *rest)


def texts(database: sqlite3.Connection, root: Path, archive: Callable[[], Archive]) -> Iterator[Text]:
    """Yield the lines of sessions and agents: of the files that are there, and of all that the archive has besides."""
    query = f"""SELECT path, project, generation, gone FROM sources
        WHERE {WITHIN} AND kind IN ('{Kind.SESSION.value}', '{Kind.AGENT.value}') ORDER BY path"""
    for path, project, generation, gone in database.execute(query, within(root)).fetchall():
        if not gone:
            yield text_of_file(path, project)
        for number in range(1, generation + bool(gone)):
            try:
                about = archive().find(path, number)
            except NotFound:  # the archive was off
                continue
            kept = archive().read(about)
            yield Text(path, project, (Lines(start, data, 0, len(data)) for start, data in kept))
