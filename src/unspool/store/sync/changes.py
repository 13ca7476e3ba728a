"""Compares what the store knows of a folder with what is on disk, by the stamps (size, time, device, inode) of files.

Rules
  1. No file is read here, and nothing that does the work of a sync is imported: a command that finds nothing
     to do must not load it.
  2. Stamps are kept twice: by file in `sources`, and packed by folder in `stamps` (`stamps.sql`). 20,000 of them are
     read from the packed form in a fifth of the time. Files whose packed stamp is out of date are in `unstamped`.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from unspool.files import error_reason
from unspool.read import LINE_KINDS, Kind, KnownFiles, ScanChanges, Skipped, known_paths, scan_changes
from unspool.store.database import IN_FOLDER, Roots, folder_parameters, list_roots

INDEXED_KINDS = frozenset({Kind.SESSION.value, Kind.AGENT.value, Kind.JOURNAL.value})
"""Kinds of files whose lines are in the text index."""

_LINE_KINDS = frozenset(kind.value for kind in LINE_KINDS)
_STAMP = Struct("<4q")
"""Size, modified, device, inode: a row of `stamps.stamps`."""
_MAX_UNPACKED_FILES = 4
"""So many files may lie unpacked,"""
_MAX_UNPACKED_SHARE = 20
"""and one in so many: packing writes the stamps of all files anew."""


class FolderChanges(NamedTuple):
    """What has changed in a folder since the store last looked at it."""

    look: ScanChanges
    gone: list[str]
    """Files that were there and are not any more."""
    edition: int
    """The `data_version` of the store that was compared."""

    @property
    def is_fresh(self) -> bool:
        """Whether the store is up to date."""
        return not self.look.changed and not self.gone


def compare_with_disk(database: sqlite3.Connection, root: Path) -> FolderChanges:
    """Return how a folder differs from what the store knows of it."""
    edition = data_version(database)  # before the stamps are read: what is written in between makes this out of date
    look = _scan(root, read_stamps(database, root))
    look.skipped.extend(_find_endless(database, look))
    missing = set(look.missing)
    if look.skipped and missing:  # what lies in a folder that cannot be read has not gone
        unread = tuple(f"{skipped.path}{os.sep}" for skipped in look.skipped)
        closed = {str(skipped.path) for skipped in look.skipped}
        missing = {path for path in missing if path not in closed and not path.startswith(unread)}
    return FolderChanges(look, sorted(missing), edition)


def _find_endless(database: sqlite3.Connection, look: ScanChanges) -> list[Skipped]:
    """Return unchanged files that the store has read up to a line without an end. What has changed is read again."""
    if not look.large:
        return []
    from unspool.read import MAX_SEARCHED, endless_reason  # of one folder in a thousand

    found, known = [], {str(skipped.path) for skipped in look.skipped}
    for path in look.large:
        row = database.execute("SELECT offset, size, kind FROM sources WHERE path = ?", (path,)).fetchone()
        if row and row[2] in _LINE_KINDS and row[1] - row[0] > MAX_SEARCHED and path not in known:
            found.append(Skipped(Path(path), endless_reason(row[0], row[1])))
    return found


def _scan(root: Path, known: KnownFiles) -> ScanChanges:
    """Look at a folder. In one that has gone every file is missing; of one that cannot be reached nothing is known."""
    try:
        root.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ScanChanges([], [], known_paths(known))
    except OSError as error:
        return ScanChanges([], [Skipped(root, error_reason(error))], (), len(known_paths(known)))
    return scan_changes(root, known)


def read_stamps(database: sqlite3.Connection, root: Path) -> KnownFiles:
    """Return the stamps of the files of a folder, or of one file, without those that have gone."""
    # One query for all three parts: between two queries another process might write.
    query = f"""SELECT folder, names, stamps, 0, 0, 0, 0 FROM stamps WHERE folder >= :first AND folder < :after
        UNION ALL SELECT path, NULL, gone, size, modified, device, inode FROM unstamped u
        CROSS JOIN sources s ON s.id = u.source_id WHERE {IN_FOLDER}
        UNION ALL SELECT path, NULL, gone, size, modified, device, inode FROM sources WHERE path = :root"""
    known: KnownFiles = {}
    unpacked: list[tuple[str, str, int | None, tuple[int, ...]]] = []
    for path, names, value, *stamp in database.execute(query, folder_parameters(root)):
        if names is None:
            folder, separator, name = path.rpartition(os.sep)
            unpacked.append((folder + separator, name, value, tuple(stamp)))
        elif len(value) == _STAMP.size * (names.count("/") + 1):  # else it is damaged, and its files count as changed
            known[path] = dict(zip(names.split("/"), _STAMP.iter_unpack(value), strict=True))
    for folder, name, gone, stamp in unpacked:
        if gone is None:
            known.setdefault(folder, {})[name] = stamp
        else:
            known.get(folder, {}).pop(name, None)
    return known


def pack_stamps(database: sqlite3.Connection) -> None:
    """Write `stamps` anew if many files are not in there; call it in a transaction."""
    (count,) = database.execute("SELECT count(*) FROM unstamped").fetchone()
    if count <= _MAX_UNPACKED_FILES:
        return
    (total,) = database.execute("SELECT count(*) FROM sources").fetchone()
    if count * _MAX_UNPACKED_SHARE < total:
        return
    folders: dict[str, tuple[list[str], list[bytes]]] = {}
    for path, *stamp in database.execute("SELECT path, size, modified, device, inode FROM sources WHERE gone IS NULL"):
        folder, separator, name = path.rpartition(os.sep)
        names, stamps = folders.setdefault(folder + separator, ([], []))
        names.append(name)
        stamps.append(_STAMP.pack(*stamp))
    rows = [(folder, "/".join(names), b"".join(stamps)) for folder, (names, stamps) in folders.items()]
    database.execute("DELETE FROM stamps")
    database.executemany("INSERT INTO stamps VALUES (?, ?, ?)", rows)
    database.execute("DELETE FROM unstamped")


def data_version(database: sqlite3.Connection) -> int:
    """Return a number that changes whenever another connection has written to the store."""
    return int(database.execute("PRAGMA data_version").fetchone()[0])


def count_unindexed_bytes(database: sqlite3.Connection, roots: Roots) -> int:
    """Return how many bytes of a folder were read and are not yet in the text index, or not in the statistics."""
    query = f"""SELECT coalesce(sum(s.offset - min(coalesce(i.offset, 0), coalesce(d.offset, 0))), 0) FROM unindexed u
        CROSS JOIN sources s ON s.id = u.source_id
        LEFT JOIN indexed i ON i.source_id = s.id AND i.generation = s.generation
        LEFT JOIN digests d ON d.source_id = s.id AND d.generation = s.generation WHERE {IN_FOLDER}"""
    return int(database.execute(query, folder_parameters(roots)).fetchone()[0])


class SourceRow(NamedTuple):
    """What the store knows of a file: a row of `sources`."""

    id: int
    home_id: int
    path: str
    kind: str
    project: str | None
    session_id: str | None
    agent_id: str | None
    generation: int
    size: int
    modified: int
    device: int
    inode: int
    offset: int = 0
    head: bytes = b""
    boundary: bytes = b""
    archived: int = 0
    lines: int = 0
    gone: int | None = None


SOURCE_COLUMNS = ", ".join(SourceRow._fields)


class HomeRow(NamedTuple):
    """A folder that was synced, or the config folder around it: a row of `homes`."""

    id: int
    path: str
    synced: int | None


def read_homes(database: sqlite3.Connection) -> list[HomeRow]:
    """Return all homes, the innermost first."""
    rows = [HomeRow(*row) for row in database.execute("SELECT id, path, synced FROM homes")]
    return sorted(rows, key=lambda row: -len(row.path))


def find_home(homes: list[HomeRow], path: str) -> HomeRow | None:
    """Return the innermost home that contains a file or folder."""
    return next((row for row in homes if path == row.path or path.startswith(row.path.rstrip(os.sep) + os.sep)), None)


def is_synced(database: sqlite3.Connection, roots: Roots) -> bool:
    """Tell whether all of a folder, or of several, has been read at some time."""
    homes = [find_home(read_homes(database), str(root)) for root in list_roots(roots)]
    return all(home is not None and home.synced is not None for home in homes)


def has_prices(database: sqlite3.Connection, edition: str) -> bool:
    """Tell whether the costs in the rows were computed with an edition of the prices."""
    row = database.execute("SELECT value FROM made_with WHERE name = 'prices'").fetchone()
    return row is not None and row[0] == edition


def is_filled(database: sqlite3.Connection) -> bool:
    """Tell whether a new store has taken in all that the archive has: see `rebuild.py`, rule 4."""
    return database.execute("SELECT 1 FROM made_with WHERE name = 'archive'").fetchone() is not None
