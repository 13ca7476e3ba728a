"""Gives commands one way to the data of some folders: from the store that knows them, or from the files themselves.

Rules
  1. Nothing heavy is imported, and no archive opened, until something needs it.
"""

from __future__ import annotations

import sqlite3
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.store.database import Roots, list_roots, open_archive

if TYPE_CHECKING:
    from unspool.home import Home
    from unspool.read import Skipped, Tree
    from unspool.store.archive.archive import Archive
    from unspool.store.preferences import Preferences
    from unspool.store.usage.ledger import Ledger


class StoreAccess:
    """Folders and the store that knows them; without a store the files answer."""

    def __init__(
        self, roots: Roots, folder: Path, preferences: Preferences, database: sqlite3.Connection | None
    ) -> None:
        self.roots = list_roots(roots)
        """The folders that are read: one, or several whose union answers."""
        self.folder, self.preferences, self.database = folder, preferences, database
        self._skipped: dict[Path, Skipped] = {}

    def skip(self, *skipped: Skipped) -> None:
        """Note files and folders that are missing in the answer; of one that is noted twice the first reason stands."""
        for one in skipped:
            self._skipped.setdefault(one.path, one)

    @property
    def skipped(self) -> list[Skipped]:
        """The files and folders that could not be read and are missing in the answer, ordered by path."""
        return sorted(self._skipped.values())

    def skip_unreadable(self) -> None:
        """Note what a sync of the folders could not read: where the files answer, the same is missing."""
        from unspool.read import find_unreadable

        self.skip(*self.tree.skipped, *find_unreadable(self.tree))

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

        return StoreLedger(self.database, self.roots, self._open_file_ledger, self.preferences.prices)

    @cached_property
    def tree(self) -> Tree:
        """The files on disk."""
        from unspool.read import scan_all

        return scan_all(self.roots)

    @cached_property
    def home(self) -> Home:
        """The sessions: those that are there, and those that only the archive has."""
        from unspool import home  # with all of `graph`: reports and lists do without it

        if self.database is None:
            return home.Home(self.tree)
        from unspool.store.archive.reader import ArchiveReader, scan_with_archive

        return home.Home(scan_with_archive(self.database, self.roots), ArchiveReader(lambda: self.archive))

    def _open_file_ledger(self) -> Ledger:
        """Return a ledger of the lines themselves, in files and, if there is a store, in the archive."""
        if self.database is not None:
            from unspool.store.usage.ledger_files import FileLedger, read_stored_lines

            files = read_stored_lines(self.database, self.roots, lambda: self.archive)
            return FileLedger(files, self.preferences.prices, self.skip)
        from unspool.read import Kind
        from unspool.store.usage.ledger_pool import BilledFile, open_file_ledger

        sources = self.tree.of(Kind.SESSION, Kind.AGENT)
        billed = [BilledFile(source.place, source.project, source.session_id, source.size) for source in sources]
        return open_file_ledger(billed, self.preferences.prices, self.skip)
