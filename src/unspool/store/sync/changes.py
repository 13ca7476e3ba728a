"""Whether the store is up to date: what it knows of a folder compared with what is there. Reads no file.

Kept apart from `sync.py`, which does the work: a command that finds nothing to do must not load what does it.

[merged: stamps.py] `stamps.sql` filled: `sources` in, what it says of when files were last looked at, by folder, out.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from unspool.files.open import reason
from unspool.read.scan import Kind, Known, Look, Skipped, look, paths_of


class Freshness(NamedTuple):
    """What is to be done."""

    look: Look
    gone: list[str]
    """Files that were there and are not any more."""
    edition: int
    """The edition of the store that was compared."""

    @property
    def is_fresh(self) -> bool:
        """Whether there is nothing to be done."""
        return not self.look.changed and not self.gone


def compare(database: sqlite3.Connection, root: Path) -> Freshness:
    """Compare what the store knows with what is there."""
    edition = edition_of(database)
    known = known_stamps(database, root)
    found = _look(root, known)
    missing = set(found.missing)
    if found.skipped and missing:  # what lies in a folder that cannot be read has not gone
        unread = tuple(f"{skipped.path}{os.sep}" for skipped in found.skipped)
        closed = {str(skipped.path) for skipped in found.skipped}
        missing = {path for path in missing if path not in closed and not path.startswith(unread)}
    return Freshness(found, sorted(missing), edition)


def _look(root: Path, known: Known) -> Look:
    """Look at a folder; one that has gone is empty, one that cannot be reached says nothing."""
    try:
        root.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Look([], [], paths_of(known))
    except OSError as error:
        return Look([], [Skipped(root, reason(error))], (), len(paths_of(known)))
    return look(root, known)


def known_stamps(database: sqlite3.Connection, root: Path) -> Known:
    """Return the stamps of the files of a folder, or of a file, as far as these have not gone.

    All of it is asked for at once: between two questions another process might write.
    """
    query = f"""SELECT folder, names, stamps, 0, 0, 0, 0 FROM stamps WHERE folder >= :first AND folder < :after
        UNION ALL SELECT path, NULL, gone, size, modified, device, inode FROM unstamped u
        CROSS JOIN sources s ON s.id = u.source_id WHERE {WITHIN}
        UNION ALL SELECT path, NULL, gone, size, modified, device, inode FROM sources WHERE path = :root"""
    known: Known = {}
    others: list[tuple[str, str, int | None, tuple[int, ...]]] = []
    for path, names, value, *stamp in database.execute(query, within(root)):
        if names is None:
            folder, separator, name = path.rpartition(os.sep)
            others.append((folder + separator, name, value, tuple(stamp)))
        elif len(value) == STAMP.size * (names.count("/") + 1):  # else it is damaged, and its files count as changed
            known[path] = dict(zip(names.split("/"), STAMP.iter_unpack(value), strict=True))
    for folder, name, gone, stamp in others:
        if gone is None:
            known.setdefault(folder, {})[name] = stamp
        else:
            known.get(folder, {}).pop(name, None)
    return known


STAMP = Struct("<4q")
"""Size, modified, device, inode: a row of `stamps.stamps`."""


def edition_of(database: sqlite3.Connection) -> int:
    """Return a number that changes whenever another process has written to the store."""
    return int(database.execute("PRAGMA data_version").fetchone()[0])


WITHIN = "(path = :root OR (path >= :first AND path < :after))"
"""The files of a folder, or the file itself."""


def within(root: Path) -> dict[str, str]:
    """Return what `WITHIN` asks for."""
    folder = str(root).rstrip(os.sep) + os.sep
    return {"root": str(root), "first": folder, "after": folder[:-1] + chr(ord(os.sep) + 1)}


SEARCHED = frozenset({Kind.SESSION.value, Kind.AGENT.value, Kind.JOURNAL.value})
"""Kinds of files whose lines are indexed."""


def unindexed(database: sqlite3.Connection, root: Path) -> int:
    """Return how many bytes of a folder were read, and are not in the text index or not in the digests."""
    query = f"""SELECT coalesce(sum(s.offset - min(coalesce(i.offset, 0), coalesce(d.offset, 0))), 0) FROM unindexed u
        CROSS JOIN sources s ON s.id = u.source_id
        LEFT JOIN indexed i ON i.source_id = s.id AND i.generation = s.generation
        LEFT JOIN digests d ON d.source_id = s.id AND d.generation = s.generation WHERE {WITHIN}"""
    return int(database.execute(query, within(root)).fetchone()[0])


class HomeRow(NamedTuple):
    """A folder that was asked for: a row of `homes`."""

    id: int
    path: str
    synced: int | None


def homes(database: sqlite3.Connection) -> list[HomeRow]:
    """Return all folders, the innermost first."""
    rows = [HomeRow(*row) for row in database.execute("SELECT id, path, synced FROM homes")]
    return sorted(rows, key=lambda row: -len(row.path))


def home_around(homes: list[HomeRow], path: str) -> HomeRow | None:
    """Return the innermost folder that a file or folder is in."""
    return next((row for row in homes if path == row.path or path.startswith(row.path.rstrip(os.sep) + os.sep)), None)


def is_synced(database: sqlite3.Connection, root: Path) -> bool:
    """Tell whether all of a folder has been read at some time."""
    found = home_around(homes(database), str(root))
    return found is not None and found.synced is not None


def is_filled(database: sqlite3.Connection) -> bool:
    """Tell whether a store has all that the archive had when it was made: see `rebuild.py`, rule 4."""
    return database.execute("SELECT 1 FROM made_with WHERE name = 'archive'").fetchone() is not None


_FEW = 4
"""So many files may be asked for one by one,"""
_PART = 20
"""and one in so many: what is written anew is all of it."""


def pack(database: sqlite3.Connection) -> None:
    """Write `stamps` anew, if many files are not in there; call it in a transaction."""
    (count,) = database.execute("SELECT count(*) FROM unstamped").fetchone()
    if count <= _FEW or count * _PART < database.execute("SELECT count(*) FROM sources").fetchone()[0]:
        return
    folders: dict[str, tuple[list[str], list[bytes]]] = {}
    for path, *stamp in database.execute("SELECT path, size, modified, device, inode FROM sources WHERE gone IS NULL"):
        folder, separator, name = path.rpartition(os.sep)
        names, stamps = folders.setdefault(folder + separator, ([], []))
        names.append(name)
        stamps.append(STAMP.pack(*stamp))
    rows = [(folder, "/".join(names), b"".join(stamps)) for folder, (names, stamps) in folders.items()]
    database.execute("DELETE FROM stamps")
    database.executemany("INSERT INTO stamps VALUES (?, ?, ?)", rows)
    database.execute("DELETE FROM unstamped")
