"""What a database must offer so that the tables of a lake can be copied to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from unspool.collect.sinks.data_files import DataFile, FileChanges, Row, TableSnapshot
from unspool.errors import Refused
from unspool.store.columns import Table

RowReader = Callable[[DataFile], Iterable[Sequence[Row]]]


class FilledTable(NamedTuple):
    """What a database says of a table that was copied to it."""

    lake_id: str
    """The table of the lake it came from."""
    version: int
    """The version of that table; -1 if it is not all there."""
    other_columns: frozenset[str]
    """Columns that the lake had and the database did not get."""


class CopiedRows(NamedTuple):
    """How many rows a step changed."""

    added: int = 0
    removed: int = 0
    altered: int = 0
    """Cells that the database cannot hold as they are."""

    def plus(self, other: CopiedRows) -> CopiedRows:
        """Return the sum of two steps."""
        return CopiedRows(self.added + other.added, self.removed + other.removed, self.altered + other.altered)


class SinkTarget(Protocol):
    """A database, locked against other sinks while it is open."""

    def prepare(self, tables: Sequence[Table]) -> dict[str, list[str]]:
        """Create what is missing; return by table the columns that were added to an existing one."""

    def filled(self) -> Mapping[str, FilledTable]:
        """Return the tables that were copied here."""

    def files(self, table: str) -> Collection[str]:
        """Return the files of the lake whose rows a table has."""

    def change(self, snapshot: TableSnapshot, changes: FileChanges, read: RowReader) -> CopiedRows:
        """Add and remove the rows of files, all or none of it."""

    def record(self, snapshot: TableSnapshot) -> None:
        """Note that a table has all rows of a snapshot."""

    def clean_up(self) -> None:
        """Remove rows that no longer count."""


OpenTarget = Callable[[], AbstractContextManager[SinkTarget]]


def foreign_table(schema: str, name: str) -> Refused:
    """Return the error for a table of somebody else that has the name of one that a sink makes."""
    return Refused(f"`{schema}.{name}` exists, and no sink has made it", hint="use another `--schema`")


def already_locked(words: str, who: str = "") -> Refused:
    """Return the error for a database that another sink is writing to."""
    by = f" ({who})" if who else ""
    return Refused(f"another sink is writing to {words}{by}", hint="wait until it is done, or stop it")
