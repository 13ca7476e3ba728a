"""Which files a question is about, and what counts in them: folders in, a `Scope` out.

Rules
  1. What counts is what `unspool usage` counts. Where the question is about one home, the marks in `answers` say so;
     about a part of a home, or several folders, it is found anew among the files that are there.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.store.freshness import WITHIN, homes, within
from unspool.store.manifest import Manifest
from unspool.store.parquet import write
from unspool.store.views import Scope

if TYPE_CHECKING:
    from unspool.prices.table import Price


def scope(
    database: sqlite3.Connection, columns: Path, manifest: Manifest, roots: Sequence[Path], prices: Sequence[Price]
) -> Scope:
    """Return what a question about some folders is about."""
    query = f"SELECT id FROM sources WHERE {WITHIN}"
    sources = frozenset(id for root in roots for (id,) in database.execute(query, within(root)))
    every = database.execute("SELECT count(*) FROM sources").fetchone()[0]
    chosen = None if len(sources) == every else sources
    if len(roots) == 1 and _is_home(database, roots[0]):
        return Scope(chosen)
    key = "\0".join(map(str, sorted(roots))).encode(errors="surrogateescape")
    name = f"scopes/{manifest.serial}-{hashlib.blake2b(key, digest_size=12).hexdigest()}.parquet"
    if not (columns / name).exists():
        from unspool.store.recount import counted

        new = f"{name}.{os.getpid()}"
        write(columns, new, "answers", list(counted(database, sources, prices)))
        (columns / new).replace(columns / name)
    return Scope(chosen, str(columns / name))


def _is_home(database: sqlite3.Connection, root: Path) -> bool:
    """Tell whether a folder is a home and no other is inside."""
    found = homes(database)
    inner = within(root)["first"]
    return any(row.path == str(root) for row in found) and not any(row.path.startswith(inner) for row in found)
