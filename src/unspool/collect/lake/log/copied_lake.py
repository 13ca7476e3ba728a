"""Opens a lake in an object store for an ingest, which reads and continues copies of the logs of its tables.

The library alone makes about ten requests for each commit: it lists the log before and after it, and opens a table by
fetching all commits since a checkpoint. In a copy on this machine it makes none.

Rules
  1. Tables are read as far as they were known when they were loaded (`recent_commits.py`), unless a fresh snapshot is
     asked for, which is one request. What is older than it seems shows when a commit is refused (`copied_table.py`).
  2. Files of tables are copied when rows are read or replaced, and removed after the commit.
  3. A checkpoint is written after some twenty commits, of one table in a round.
  4. A table with a checkpoint of an unknown form is used where it is, as any other program uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import finalize
from zlib import crc32

from unspool.collect.lake.lake import CommitConflict, Lake, open_lake, translate_lake_errors
from unspool.collect.lake.log.copied_table import (
    CommitRefused,
    CopiedTable,
    LogReplaced,
    UnknownCheckpoint,
    paths_inside,
)
from unspool.collect.lake.log.delta_transactions import TransactionVersions
from unspool.collect.lake.log.recent_commits import (
    NAME,
    NOTHING,
    VERSION,
    RecentCommits,
    declared_columns,
    read_recent,
    write_recent,
)
from unspool.collect.lake.tables import lake_tables
from unspool.collect.object_store import SegmentStore, open_object_store
from unspool.errors import ObjectStoreFailed

if TYPE_CHECKING:
    from deltalake import DeltaTable

_COMMITS, _MORE_COMMITS = 20, 10
"""A checkpoint is written after so many commits: the first, and up to the second more, by the name of the table."""
_BYTES = 256 * 1024
"""A checkpoint is written after so many bytes of commits: all of them are in the object of recent commits."""
_LATE = 2
"""So many times later, checkpoints of several tables are written in one round."""
_CLEANED_EVERY = 1000
"""Old commits are removed once in so many: they are kept for a week in any case."""
_ATTEMPTS = 5


class CopiedLake(Lake):
    """A lake in an object store, with copies of the logs of its tables in a temporary folder."""

    def __init__(self, lake: Lake, environment: Mapping[str, str]) -> None:
        super().__init__(lake.url, environment, lake.version)
        self._copies_folder = Path(mkdtemp(prefix="unspool-lake-"))
        """Only its owner may read it: it holds rows."""
        # An ingest has no end at which it could be closed: it goes with the object, or with the process.
        finalize(self, rmtree, self._copies_folder, ignore_errors=True)
        self._copied_objects: SegmentStore = open_object_store(self._copies_folder.as_uri(), {})
        self._copies: dict[str, CopiedTable] = {}
        self._uncopied: set[str] = set()
        self._recent: RecentCommits | None = None
        self._has_committed = self._has_columns = self._has_lost_logs = self._has_checkpoint = False

    @property
    def is_near(self) -> bool:
        """Whether the newest snapshot is read in any case: a request for each table."""
        return False

    def table(self, name: str, *, fresh: bool = False) -> DeltaTable:
        """Return the copy of a table, as it was loaded; with `fresh` at the newest snapshot."""
        from deltalake import DeltaTable

        copy = self._copies.get(name)
        if copy is None and name not in self._uncopied:
            copy = CopiedTable(self.object_store, name, self._copies_folder)
            try:
                with translate_lake_errors(self.url):
                    is_newest = copy.load(self._recent_commits().tables.get(name))
                fresh = fresh and not is_newest
                self._copies[name] = copy
            except UnknownCheckpoint:
                self._uncopied.add(name)
        if name in self._uncopied or copy is None:
            return super().table(name, fresh=fresh)
        if fresh:
            try:
                with translate_lake_errors(self.url):
                    if copy.pull() and name in self._tables:
                        self._tables[name].update_incremental()
            except LogReplaced:
                self._drop_copy(name)
                return self.table(name)
        if name not in self._tables:
            with translate_lake_errors(self.url):
                self._tables[name] = DeltaTable(str(copy.folder))
        return self._tables[name]

    def versions(self, name: str) -> Mapping[str, int]:
        """Return the last version of each transaction in the loaded snapshot of a table."""
        table = self.table(name)
        if name in self._uncopied:
            return super().versions(name)
        if name not in self._versions:
            self._versions[name] = TransactionVersions(self._copied_objects, name)
        return self._versions[name].at(table)

    def add_missing_columns(self) -> list[str]:
        """Add the columns that came since the lake was created; return them as `table.column`."""
        if self._recent_commits().columns == declared_columns():
            self._has_columns = True
            return []
        for attempt in range(_ATTEMPTS):
            try:
                added = super().add_missing_columns()
            except CommitConflict:
                # Another ingest has committed: its columns may be those that were missing.
                for name in lake_tables() if attempt + 1 < _ATTEMPTS else ():
                    self.table(name, fresh=True)
                continue
            self._has_columns = True
            return added
        raise ObjectStoreFailed(f"too many concurrent writers on the lake at `{self.url}`", hint="try again")

    def rows(self, name: str, query: str, where: str | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query over one table, of which the files with rows for `where` are copied."""
        for _ in range(_ATTEMPTS):
            table = self.table(name)
            if name in self._uncopied or self._fetch(name, table, where):
                return super().rows(name, query, where)
            # Files are deleted some time after others took their place.
            self._drop_copy(name)
        raise CommitConflict(name)

    def write(self, name: str, batches: Sequence[Any], marks: Mapping[str, int], where: str | None = None) -> None:
        """Append rows to a table, or replace those that a predicate selects, and record transactions."""
        with self._commit(name, where):
            super().write(name, batches, marks, where)

    def delete(self, name: str, where: str) -> None:
        """Delete the rows that a predicate selects."""
        with self._commit(name, where):
            super().delete(name, where)

    def commit_options(self, name: str, transactions: list[Any]) -> dict[str, Any]:
        """Return how the library commits to a table: to a copy it only writes the commit."""
        from deltalake import CommitProperties, PostCommitHookProperties

        if name in self._uncopied:
            return super().commit_options(name, transactions)
        properties = CommitProperties(custom_metadata={"unspool": uuid4().hex}, app_transactions=transactions)
        hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        return {"commit_properties": properties, "post_commithook_properties": hooks}

    def finish_round(self) -> None:
        """Write the recent commits of all tables for the next ingest, if this one has committed."""
        has_committed, self._has_committed, self._has_checkpoint = self._has_committed, False, False
        if self._has_lost_logs:
            # Other copies may still begin before `lake forget`: what they have must not come back.
            self._drop_copies()
        elif has_committed:
            # Only a cache: without it, the next ingest makes more requests.
            with suppress(ObjectStoreFailed):
                self._write_recent()

    def _write_recent(self) -> None:
        first = next(iter(lake_tables()))
        self.table(first)
        known = {name: copy.known() for name, copy in self._copies.items()}
        columns = declared_columns() if self._has_columns else ""
        self._recent = RecentCommits(VERSION, columns, {**self._recent_commits().tables, **known})
        write_recent(self.object_store, self._recent)
        # `lake forget` replaces this log first, and deletes the recent commits last. They must not come back.
        if first not in self._copies or self._copies[first].is_replaced():
            self.object_store.delete(NAME)
            self._drop_copies()

    def _add_columns(self, name: str, fields: list[Any]) -> None:
        with self._commit(name, None), translate_lake_errors(self.url):
            self.table(name).alter.add_columns(fields, **self.commit_options(name, []))

    @contextmanager
    def _commit(self, name: str, where: str | None) -> Iterator[None]:
        """Let the library commit to the copy of a table, and put its commit into the log."""
        table = self.table(name)
        if name in self._uncopied:
            yield
            return
        copy = self._copies[name]
        if where is not None and not self._fetch(name, table, where):
            self._drop_copy(name)
            raise CommitConflict(name)
        is_published = False
        try:
            yield
            if copy.has_commit():
                self._publish(name, copy, table)
            is_published = True
        finally:
            if not is_published and name in self._copies:
                copy.discard()
                self._tables.pop(name, None)
            copy.drop_files()

    def _publish(self, name: str, copy: CopiedTable, table: DeltaTable) -> None:
        try:
            with translate_lake_errors(self.url):
                has_others = copy.publish()
        except LogReplaced:
            self._drop_copy(name)
            raise CommitConflict(name) from None
        except CommitRefused:
            raise CommitConflict(name) from None
        self._has_committed = True
        if has_others:
            # In memory, the library has this commit under the number of another.
            self._tables.pop(name)
        else:
            table.update_incremental()
        commits, weight = copy.weight
        due = _COMMITS + crc32(name.encode()) % _MORE_COMMITS
        if weight > _BYTES or commits > (_LATE * due if self._has_checkpoint else due):
            self._has_checkpoint = True
            self._write_checkpoint(name, copy)

    def _write_checkpoint(self, name: str, copy: CopiedTable) -> None:
        before = copy.checkpoint
        # The commit counts already: a checkpoint that cannot be put now is put after one of the next.
        with suppress(ObjectStoreFailed, UnknownCheckpoint), translate_lake_errors(self.url):
            if (
                copy.put_checkpoint(self.table(name))
                and copy.checkpoint // _CLEANED_EVERY > max(before, 0) // _CLEANED_EVERY
            ):
                from deltalake import DeltaTable

                DeltaTable(super().location(name), storage_options=self.options).cleanup_metadata()

    def _fetch(self, name: str, table: DeltaTable, where: str | None) -> bool:
        """Copy the files of a table with rows for a predicate; return False if one of them is gone."""
        copy = self._copies[name]
        with translate_lake_errors(self.url):
            return copy.fetch(paths_inside(table, copy.folder, where))

    def _recent_commits(self) -> RecentCommits:
        if self._recent is None:
            self._recent = read_recent(self.object_store)
        return self._recent

    def _drop_copy(self, name: str) -> None:
        """Let a table be copied anew from its log; others may have been replaced too."""
        self._recent, self._has_lost_logs = NOTHING, True
        for by_name in (self._copies, self._tables, self._versions):
            by_name.pop(name, None)

    def _drop_copies(self) -> None:
        """Let all tables be copied anew from their logs."""
        self._recent, self._has_lost_logs = NOTHING, False
        for by_name in (self._copies, self._tables, self._versions):
            by_name.clear()


def open_ingest_lake(url: str, environment: Mapping[str, str]) -> Lake:
    """Open an existing lake for an ingest: with copies of its logs, unless it is a folder."""
    lake = open_lake(url, environment)
    return lake if lake.folder is not None else CopiedLake(lake, environment)
