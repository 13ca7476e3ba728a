"""The catalogue kept at hand: for who asks again and again, while the store changes now and then.

Rules
  1. Sessions are read again when another connection has written to the store, and only then (`PRAGMA data_version`).
  2. It may be asked by any thread; one is answered at a time.
  3. A store that was made again is another file: the one that was open is let go of.
"""

from __future__ import annotations

import sqlite3
from datetime import tzinfo
from pathlib import Path
from threading import Lock

from unspool.store.catalog import Catalog, Chosen, Wanted, chosen, known, part
from unspool.store.database import STORE, open_store, telling
from unspool.store.facets import Filters, Listed
from unspool.store.freshness import edition_of
from unspool.store.opened import Opened
from unspool.store.settings import Settings


class Shelf:
    """The sessions of a folder."""

    def __init__(self, root: Path, folder: Path, settings: Settings) -> None:
        self._root, self._folder, self._settings = root, folder, settings
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._edition = -1
        self._every: list[Listed] = []
        self._chosen: tuple[Filters, tzinfo | None, Chosen] | None = None

    def catalog(self, wanted: Wanted, zone: tzinfo | None) -> Catalog:
        """Return the sessions that are wanted."""
        with self._lock, telling(self._folder):
            database = self._current()
            edition = edition_of(database)
            if edition != self._edition:
                ledger = Opened(self._root, self._folder, self._settings, database).ledger
                self._every, self._chosen, self._edition = known(database, self._root, ledger), None, edition
            if self._chosen is None or self._chosen[:2] != (wanted.filters, zone):
                self._chosen = (wanted.filters, zone, chosen(database, self._every, wanted.filters, zone))
            return part(database, self._chosen[2], wanted)

    def close(self) -> None:
        """Let go of the store."""
        with self._lock:
            self._let_go()

    def _current(self) -> sqlite3.Connection:
        """Return the store, opened anew if it is not the file it was."""
        if self._database is None or self._identity() != self._file:
            self._let_go()
            self._database = open_store(self._folder, any_thread=True)
            self._file = self._identity()
        return self._database

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = (self._folder / STORE).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _let_go(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database, self._file, self._edition, self._every, self._chosen = None, None, -1, [], None
