"""Gives commands one way to a folder's data: from the store that knows it, or from the files themselves.

Rules
  1. Nothing heavy is imported, and no archive opened, until something needs it.
"""

from __future__ import annotations

import sqlite3
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.store.database import open_archive

if TYPE_CHECKING:
    from unspool.home import Home
    from unspool.store.archive.archive import Archive
    from unspool.store.preferences import Preferences
    from unspool.store.usage.ledger import Ledger


class StoreAccess:
    """A folder and the store that knows it; without a store the files answer."""

    def __init__(self, root: Path, folder: Path, preferences: Preferences, database: sqlite3.Connection | None) -> None:
        self.root, self.folder, self.preferences, self.database = root, folder, preferences, database

    @cached_property
    def archive(self) -> Archive:
        """The archive, opened when it is needed."""
        from unspool.store.archive.archive import Archive

        return Archive(open_archive(self.folder))

    @property
    def ledger(self) -> Ledger:
        """What was billed."""
        if self.database is None:
            return self._open_file_ledger()
        from unspool.store.usage.ledger import StoreLedger

        return StoreLedger(self.database, self.root, self._open_file_ledger)

    @cached_property
    def home(self) -> Home:
        """The sessions: those that are there, and those that only the archive has."""
        from unspool import home  # with all of `graph`: reports and lists do without it

        if self.database is None:
            return home.open(self.root)
        from unspool.store.archive.reader import ArchiveReader, scan_with_archive

        return home.Home(scan_with_archive(self.database, self.root), ArchiveReader(lambda: self.archive))

    def _open_file_ledger(self) -> Ledger:
        """Return a ledger of the lines themselves, in files and, if there is a store, in the archive."""
        from unspool.store.usage.ledger_files import FileLedger, read_lines, read_stored_lines

        if self.database is not None:
            files = read_stored_lines(self.database, self.root, lambda: self.archive)
        else:
            from unspool.read import Kind, scan

            sources = scan(self.root).of(Kind.SESSION, Kind.AGENT)
            files = (read_lines(source.place, source.project) for source in sources)
        return FileLedger(files, self.preferences.prices)
