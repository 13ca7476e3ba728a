"""Finds which files of a Delta table differ from what a database has, and reads their rows.

Rules
  1. A database has for every row the file of the lake it came from. The files that a snapshot names and the database
     lacks are added, the others it has are removed. So the rows are those of the snapshot, whatever happened between:
     new lines, replaced streams, `lake ingest --again`, erasure, compaction. The commits between two snapshots are not
     read: a log that was cleaned is no reason to fill a table anew.
  2. Data files never change and names never repeat: a name stands for its rows.
  3. Additions alone may be copied in several steps: what is there is then a part of the snapshot. As soon as a file
     is removed, everything is one step, since rows of removed files may be in added ones too.
  4. A file that lacks a column has null in it, as in `lake sql`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from unspool.collect.lake.lake import Lake, translate_lake_errors
from unspool.errors import ObjectStoreFailed, Refused
from unspool.store.columns import Table

STEP_BYTES = 64 * 1024 * 1024
"""Bytes of data files that are copied in one step."""

Row = tuple[Any, ...]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DataFile(NamedTuple):
    """A data file of a table, and what its rows have in the columns that the table is partitioned by."""

    path: str
    size: int
    partition: dict[str, Any]


class TableSnapshot(NamedTuple):
    """A table of the lake at one version."""

    table: Table
    id: str
    """Which table it is: another one has another id, even if it is in the same place."""
    version: int
    files: dict[str, DataFile]
    """By path."""
    other_columns: frozenset[str]
    """Columns that this version of unspool does not know."""


class FileChanges(NamedTuple):
    """Files whose rows a database must add and remove."""

    removed: list[str]
    added: list[DataFile]


def read_snapshot(lake: Lake, table: Table) -> TableSnapshot:
    """Return the newest snapshot of a table."""
    with translate_lake_errors(lake.url):
        delta = lake.table(table.name, fresh=True)
        # Rows that are deleted without a new file would be copied all the same.
        if "deletionVectors" in (delta.protocol().reader_features or ()):
            message = f"the table `{table.name}` of the lake has deletion vectors, which a sink cannot read"
            raise Refused(message, hint="purge them and turn the feature off")
        actions: Any = delta.get_add_actions(flatten=True)
        names = {field.name for field in delta.schema().fields}
        id, version = str(delta.metadata().id), delta.version()
    keys = [key for key in actions.schema.names if key.startswith("partition.")]
    cells = zip(*(actions.column(key).to_pylist() for key in keys), strict=True) if keys else None
    files = {}
    for path, size in zip(actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist(), strict=True):
        values = next(cells) if cells else ()
        partition = dict(zip((key.removeprefix("partition.") for key in keys), values, strict=True))
        files[unquote(path)] = DataFile(unquote(path), size, partition)
    return TableSnapshot(table, id, version, files, frozenset(names.difference(table.names)))


def find_changes(snapshot: TableSnapshot, there: Collection[str], *, again: bool = False) -> FileChanges:
    """Return what must change in a database that has these files; with `again`, everything is replaced."""
    removed = sorted(path for path in there if again or path not in snapshot.files)
    added = [file for path, file in sorted(snapshot.files.items()) if again or path not in there]
    return FileChanges(removed, added)


def split_changes(changes: FileChanges, step_bytes: int = STEP_BYTES) -> Iterator[FileChanges]:
    """Yield the steps that changes may be made in (rule 3)."""
    if changes.removed:
        yield changes
        return
    step: list[DataFile] = []
    size = 0
    for file in changes.added:
        if step and size + file.size > step_bytes:
            yield FileChanges([], step)
            step, size = [], 0
        step.append(file)
        size += file.size
    if step:
        yield FileChanges([], step)


def read_rows(lake: Lake, table: Table, file: DataFile) -> Iterator[Sequence[Row]]:
    """Yield the rows of a data file, some thousand at a time, in the order of the table's columns."""
    from arro3.io import read_parquet

    data = lake.object_store.get(f"{table.name}/{quote(file.path, safe='/=')}")
    if data is None:
        message = f"a file of the table `{table.name}` no longer exists"
        raise ObjectStoreFailed(message, hint="a vacuum removed it; run the command again")
    for batch in read_parquet(BytesIO(data)):
        there = set(batch.schema.names)
        columns = [
            _values(batch.column(name)) if name in there else [file.partition.get(name)] * batch.num_rows
            for name in table.names
        ]
        yield list(zip(*columns, strict=True))


def _values(column: Any) -> Iterable[Any]:
    try:
        values: Iterable[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        # A time outside the years of Python. Each of the others is kept.
        from arro3.core import DataType

        values = [None if number is None else _as_time(number) for number in column.cast(DataType.int64()).to_pylist()]
    return values


def _as_time(micros: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
