"""The folders that the server shows, and how a request opens their store.

Rules
  1. A page reads the store as it is. Bringing it up to date is a background task (`background.py`).
  2. Where the data folder cannot hold a store, or must not (`--no-store`), a temporary one takes its place: every page
     gives the same answers. Stars, notes and what was seen stay in the data folder.
  3. Each request has a connection of its own: pages are made in threads.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final, NamedTuple

from unspool.display import amount, size
from unspool.errors import UnspoolError, Unwritable
from unspool.format import local_time
from unspool.read import Skipped
from unspool.store import (
    IN_FOLDER,
    Preferences,
    Roots,
    StoreAccess,
    folder_parameters,
    open_store,
    translate_errors,
)
from unspool.store.sync import is_synced

_TEMPORARY: Final = "read from the files alone: sessions that Claude Code has deleted are missing"


class Site(NamedTuple):
    """The folders that the server shows, their store, and the time."""

    roots: Roots
    """The config folder, project or file; or several, whose union is shown."""
    folder: Path
    """The data folder."""
    preferences: Preferences
    clock: Callable[[], datetime]
    refresh: Callable[[], Sequence[Skipped]]
    """Brings the store up to date, text index and all; returns what could not be read."""
    zone: tzinfo | None = None
    """The time zone of days; none is the machine's own."""
    temporary_store: Path | None = None
    """Where the store is, if the data folder has none that may be used; it ends with the server."""

    @property
    def store_folder(self) -> Path:
        """Where the store is."""
        return self.temporary_store or self.folder

    def close(self) -> None:
        """Remove the temporary store, if there is one."""
        if self.temporary_store is not None:
            shutil.rmtree(self.temporary_store, ignore_errors=True)

    @contextmanager
    def open(self) -> Iterator[StoreAccess]:
        """Open the store for one request; without a store, the session files answer."""
        with translate_errors(self.store_folder):
            database: sqlite3.Connection | None
            try:
                database = open_store(self.store_folder)
            except Unwritable:  # no store can be made there: pages are read from the session files
                database = None
            access = StoreAccess(self.roots, self.store_folder, self.preferences, database)
            try:
                yield access
            finally:
                if "archive" in vars(access):  # a cached property: only what was opened is closed
                    access.archive.database.close()
                if database is not None:
                    database.close()

    def describe_progress(self) -> str | None:
        """Return the note above every page while the folder is being read for the first time, or if it cannot be."""
        try:
            return self._describe_reading()
        except UnspoolError as error:  # a page that says so has this note too
            return error.message

    def _describe_reading(self) -> str | None:
        with self.open() as access:
            if access.database is None:
                return "the store is not available: pages are slow, and deleted sessions are missing"
            if is_synced(access.database, access.roots):
                return _TEMPORARY if self.temporary_store is not None else None
            query = f"SELECT count(*), coalesce(sum(offset), 0) FROM sources WHERE {IN_FOLDER} AND kind = 'session'"
            count, read = access.database.execute(query, folder_parameters(access.roots)).fetchone()
            return f"first read of all sessions: {amount(count, 'session')}, {size(read)} so far"

    def format_time(self, time: int | None) -> str:
        """Return a time of the store, which is in milliseconds, in the site's time zone."""
        moment = local_time(time or None, self.zone)
        return f"{moment:%Y-%m-%d %H:%M}" if moment else ""

    def now(self) -> datetime:
        """Return the time in the site's time zone."""
        return self.clock().astimezone(self.zone)
