"""The folder that the server shows, and how a request opens its store.

Rules
  1. A page reads the store as it is. Bringing it up to date is a background task (`background.py`).
  2. Each request has a connection of its own: pages are made in threads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from typing import NamedTuple

from unspool.display import amount, size
from unspool.errors import Unwritable
from unspool.store import (
    IN_FOLDER,
    Preferences,
    StoreAccess,
    folder_parameters,
    local_time,
    open_store,
    translate_errors,
)
from unspool.store.sync import is_synced


class Site(NamedTuple):
    """The folder that the server shows, its store, and the time."""

    root: Path
    """The config folder, project or file."""
    folder: Path
    """Where the store is."""
    preferences: Preferences
    clock: Callable[[], datetime]
    refresh: Callable[[], None]
    """Brings the store up to date, text index and all."""
    zone: tzinfo | None = None
    """The time zone of days; none is the machine's own."""

    @contextmanager
    def open(self) -> Iterator[StoreAccess]:
        """Open the store for one request; without a store, the session files answer."""
        with translate_errors(self.folder):
            database: sqlite3.Connection | None
            try:
                database = open_store(self.folder)
            except Unwritable:  # no store can be made there: pages are read from the session files
                database = None
            access = StoreAccess(self.root, self.folder, self.preferences, database)
            try:
                yield access
            finally:
                if "archive" in vars(access):  # a cached property: only what was opened is closed
                    access.archive.database.close()
                if database is not None:
                    database.close()

    def describe_progress(self) -> str | None:
        """Return the note above every page while the folder is being read for the first time."""
        with self.open() as access:
            if access.database is None:
                return "there is no store to answer from: pages are slow, and sessions that were deleted are not known"
            if is_synced(access.database, access.root):
                return None
            query = f"SELECT count(*), coalesce(sum(offset), 0) FROM sources WHERE {IN_FOLDER} AND kind = 'session'"
            count, read = access.database.execute(query, folder_parameters(access.root)).fetchone()
            return f"reading all sessions for the first time: {amount(count, 'session')}, {size(read)} so far"

    def format_time(self, time: int | None) -> str:
        """Return a time of the store, which is in milliseconds, in the site's time zone."""
        moment = local_time(time or None, self.zone)
        return f"{moment:%Y-%m-%d %H:%M}" if moment else ""

    def now(self) -> datetime:
        """Return the time in the site's time zone."""
        return self.clock().astimezone(self.zone)
