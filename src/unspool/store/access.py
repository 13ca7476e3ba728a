"""A folder, and what answers for it: the store that knows it, or the files themselves.

Rules
  1. Nothing heavy is imported, and no archive opened, until something is asked that needs it.
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
    from unspool.store.preferences import Settings
    from unspool.store.usage.ledger import Ledger


class Opened:
    """A folder, and the store that knows it; no store: the files answer."""

    def __init__(self, root: Path, folder: Path, chosen: Settings, database: sqlite3.Connection | None) -> None:
        self.root, self.folder, self.settings, self.database = root, folder, chosen, database

    @cached_property
    def archive(self) -> Archive:
        """The archive, opened when it is needed."""
        from unspool.store.archive.archive import Archive

        return Archive(open_archive(self.folder))

    @property
    def ledger(self) -> Ledger:
        """What was billed."""
        if self.database is None:
            return self._from_files()
        from unspool.store.usage.ledger_store import StoreLedger

        return StoreLedger(self.database, self.root, self._from_lines)

    @cached_property
    def home(self) -> Home:
        """The sessions: those that are there, and those that only the archive has."""
        from unspool import home

        if self.database is None:
            return home.open(self.root)
        from unspool.store.archive.reader import KeptReader, kept_tree

        return home.Home(kept_tree(self.database, self.root), KeptReader(lambda: self.archive))

    def _from_files(self) -> Ledger:
        from unspool.read.scan import Kind, scan
        from unspool.store.usage.ledger_files import FileLedger, text_of_file

        sources = scan(self.root).of(Kind.SESSION, Kind.AGENT)
        return FileLedger((text_of_file(source.place, source.project) for source in sources), self.settings.prices)

    def _from_lines(self) -> Ledger:
        from unspool.store.archive.reader import texts
        from unspool.store.usage.ledger_files import FileLedger

        assert self.database is not None
        return FileLedger(texts(self.database, self.root, lambda: self.archive), self.settings.prices)
