"""What the pages show: a folder, its store, and who keeps that up to date.

Rules
  1. A page reads the store as it is. Bringing it up to date is one task beside the pages (`upkeep.py`).
  2. Each request has a connection of its own: pages are made in threads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from typing import NamedTuple

from unspool.display.units import amount, size
from unspool.errors import Unwritable
from unspool.store.access import Opened
from unspool.store.database import open_store, telling
from unspool.store.preferences import Settings
from unspool.store.sync.changes import WITHIN, is_synced, within


class Place(NamedTuple):
    """A folder that is shown, and what is needed for it."""

    root: Path
    """The config folder, project or file."""
    folder: Path
    """Where the store is."""
    settings: Settings
    clock: Callable[[], datetime]
    refresh: Callable[[], None]
    """Bring the store up to date, text index and all."""
    zone: tzinfo | None = None
    """Whose days; none is the machine's own."""

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """Open the folder for one request; without a store, the files answer."""
        with telling(self.folder):
            database: sqlite3.Connection | None
            try:
                database = open_store(self.folder)
            except Unwritable:
                database = None
            opened = Opened(self.root, self.folder, self.settings, database)
            try:
                yield opened
            finally:
                if "archive" in vars(opened):
                    opened.archive.database.close()
                if database is not None:
                    database.close()

    def note(self) -> str | None:
        """Return what to say above every page: that the folder is still being read for the first time."""
        with self.opened() as opened:
            if opened.database is None:
                return "there is no store to answer from: pages are slow, and sessions that were deleted are not known"
            if is_synced(opened.database, opened.root):
                return None
            query = f"SELECT count(*), coalesce(sum(offset), 0) FROM sources WHERE {WITHIN} AND kind = 'session'"
            count, read = opened.database.execute(query, within(opened.root)).fetchone()
            return f"reading all sessions for the first time: {amount(count, 'session')}, {size(read)} so far"

    def now(self) -> datetime:
        """Return the time, in the zone whose days are told."""
        return self.clock().astimezone(self.zone)
