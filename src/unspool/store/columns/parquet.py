"""Writes rows of the tables in `parts.sql` to Parquet files.

Rules
  1. A file is readable by the user alone, and fsynced before a manifest names it.
  2. Whatever the rows hold, the file can be written and DuckDB can read it (`values.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.extras import require_extras
from unspool.files import write_durably
from unspool.store.columns.tables import Table, TableColumn, part_tables
from unspool.store.columns.values import clean_json, clean_text, fit_integer

if TYPE_CHECKING:
    from arro3.core import Array

_COMPRESSION = "zstd(3)"
CHUNK_BYTES = 16 * 1024 * 1024
"""Bytes of lines whose rows are held at once."""


class ColumnFile(msgspec.Struct, frozen=True):
    """A Parquet file with rows of one table."""

    table: str
    name: str
    """Its path, relative to the folder of the column files."""
    size: int
    digest: str
    rows: int


def write_column_file(folder: Path, name: str, table: str, rows: Sequence[tuple[object, ...]]) -> ColumnFile:
    """Write rows of a table to a new Parquet file."""
    from arro3.io import write_parquet

    data = BytesIO()
    write_parquet(
        to_record_batch(part_tables()[table], rows),
        data,
        compression=_COMPRESSION,
        created_by="unspool",
        skip_arrow_metadata=True,
    )
    content = data.getvalue()
    write_durably(folder / name, content)
    return ColumnFile(table, name, len(content), content_digest(content), len(rows))


class PartWriter:
    """Collects rows of many tables and writes them as the files of one part."""

    def __init__(self, columns: Path, part: str) -> None:
        self._columns, self._part = columns, part
        self._rows: dict[str, list[tuple[object, ...]]] = {}
        self._chunk = self._source_bytes = 0
        self.files: list[ColumnFile] = []

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Add a row of a table."""
        self._rows.setdefault(table, []).append(row)

    def add_source_bytes(self, count: int) -> None:
        """Count the bytes of session files that rows came from, and write the rows when they are many."""
        self._source_bytes += count
        if self._source_bytes >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the collected rows, one file for each table."""
        for table, rows in self._rows.items():
            name = f"{self._part}/{table}.{self._chunk}.parquet"
            self.files.append(write_column_file(self._columns, name, table, rows))
        self._rows, self._source_bytes = {}, 0
        self._chunk += 1


def content_digest(content: bytes) -> str:
    """Return the hash by which a damaged file is recognised."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def require_sql_libraries() -> None:
    """Raise if DuckDB or arro3 is not installed."""
    require_extras("sql")


def to_record_batch(table: Table, rows: Sequence[tuple[object, ...]]) -> Any:
    """Return rows as an Arrow record batch."""
    from arro3.core import RecordBatch

    columns: Iterable[tuple[Any, ...]] = zip(*rows, strict=True) if rows else [()] * len(table.columns)
    arrays = [_array(column, list(values)) for column, values in zip(table.columns, columns, strict=True)]
    return RecordBatch(arrays, schema=arrow_schema(table))


@cache
def arrow_schema(table: Table) -> Any:
    """Return the Arrow schema of a table."""
    from arro3.core import Field, Schema

    return Schema([Field(column.name, _types()[column.type][0]) for column in table.columns])


@cache
def _types() -> dict[str, tuple[Any, Any, Callable[[Any], Any]]]:
    """Return for each SQL type its Arrow type in the file, the type it is built as, and what makes a value fit."""
    from arro3.core import DataType

    long, short = DataType.int64(), DataType.int32()
    return {
        "VARCHAR": (DataType.utf8(), DataType.utf8(), clean_text),
        "JSON": (DataType.utf8(), DataType.utf8(), clean_text),
        "TEXT": (DataType.utf8(), DataType.utf8(), clean_text),
        "BIGINT": (long, long, lambda number: fit_integer(number, 64)),
        "INTEGER": (short, short, lambda number: fit_integer(number, 32)),
        "TIMESTAMP": (DataType.timestamp("us"), long, lambda number: fit_integer(number, 64)),
        "TIMESTAMPTZ": (DataType.timestamp("us", tz="UTC"), long, lambda number: fit_integer(number, 64)),
        "DATE": (DataType.date32(), short, lambda number: fit_integer(number, 32)),
        "DOUBLE": (DataType.float64(), DataType.float64(), float),
        "BOOLEAN": (DataType.bool(), DataType.bool(), bool),
    }


def _array(column: TableColumn, values: list[Any]) -> Array:
    from arro3.core import Array

    stored, built, fit = _types()[column.type]
    if column.type == "JSON":
        values = [value if value is None else clean_json(value) for value in values]
    # arro3 accepts a NUL in text, so it has to be looked for. `TEXT`, the raw lines of a lake, keeps it.
    elif column.type == "VARCHAR" and any("\0" in value for value in filter(None, values)):
        values = [value if value is None else clean_text(value) for value in values]
    try:
        # Hardly ever does a value not fit: only then is each of them looked at.
        array = Array(values, built)
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
        array = Array([value if value is None else fit(value) for value in values], built)
    return array if stored == built else array.cast(stored)
