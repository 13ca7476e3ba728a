"""`stamps.sql` filled: `sources` in, what it says of when files were last looked at, by folder, out."""

from __future__ import annotations

import os
import sqlite3

from unspool.store.freshness import STAMP

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
