"""The tables of SQL, ready to be asked: column files that are up to date in, what to run over them out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from unspool.store import manifest as manifests
from unspool.store.database import telling
from unspool.store.scopes import scope
from unspool.store.settings import Settings
from unspool.store.usage import zone_of
from unspool.store.views import Setup, setup


class Tables(NamedTuple):
    """Column files that stay as they are while this is used."""

    columns: Path
    setup: Setup
    database: sqlite3.Connection
    folder: Path
    """Of the store."""
    roots: Sequence[Path]


@contextmanager
def tables(database: sqlite3.Connection, folder: Path, roots: Sequence[Path], chosen: Settings) -> Iterator[Tables]:
    """Return the tables of some folders, as the column files have them."""
    columns = folder / manifests.FOLDER
    with manifests.reading(columns) as manifest, telling(folder):
        zone = zone_of(chosen.timezone or "local")
        wanted = scope(database, columns, manifest, list(roots), chosen.prices)
        yield Tables(columns, setup(columns, manifest, wanted, zone), database, folder, roots)
