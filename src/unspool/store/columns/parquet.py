"""Rows to Parquet: a table of `parts.sql` and its rows in, a file of zstd columns out.

Rules
  1. A file is for the user alone, and on the disk before anybody is told of it.
  2. Whatever the rows hold, the file can be written and DuckDB can read it (`cells.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.errors import Refused
from unspool.store.columns.tables import Column, Table, parts
from unspool.store.columns.values import clean_json, clean_text, fitting

if TYPE_CHECKING:
    from arro3.core import Array

MISSING = "install it with: pip install 'unspool[sql]'"
_LEVEL = "zstd(3)"


class File(msgspec.Struct, frozen=True):
    """A file of columns."""

    table: str
    name: str
    """Its path in the folder of the column files."""
    size: int
    digest: str
    rows: int


def write(folder: Path, name: str, table: str, rows: Sequence[tuple[object, ...]]) -> File:
    """Write rows of a table to a new file."""
    from arro3.io import write_parquet

    data = BytesIO()
    write_parquet(batch(parts()[table], rows), data, compression=_LEVEL, created_by="unspool", skip_arrow_metadata=True)
    content = data.getvalue()
    save(folder / name, content)
    return File(table, name, len(content), digest(content), len(rows))


def save(path: Path, content: bytes) -> None:
    """Write a new file that nobody else may read, and see it to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def digest(content: bytes) -> str:
    """Return what tells a file from a damaged one."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def sync_folder(folder: Path) -> None:
    """See the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check() -> None:
    """Refuse to go on without the libraries."""
    if not all(find_spec(name) for name in ("duckdb", "arro3")):
        raise Refused("SQL needs DuckDB and arro3, which are not installed", hint=MISSING)


def batch(table: Table, rows: Sequence[tuple[object, ...]]) -> Any:
    """Return rows as columns of Arrow."""
    from arro3.core import RecordBatch

    columns: Iterable[tuple[Any, ...]] = zip(*rows, strict=True) if rows else [()] * len(table.columns)
    arrays = [_array(column, list(values)) for column, values in zip(table.columns, columns, strict=True)]
    return RecordBatch(arrays, schema=schema(table))


@cache
def schema(table: Table) -> Any:
    """Return what the columns of a table are in Arrow."""
    from arro3.core import Field, Schema

    return Schema([Field(column.name, _types()[column.type][0]) for column in table.columns])


@cache
def _types() -> dict[str, tuple[Any, Any, Callable[[Any], Any]]]:
    """Return for each type of SQL what it is in the file, what it is built as, and what makes values fit."""
    from arro3.core import DataType

    whole, short = DataType.int64(), DataType.int32()
    return {
        "VARCHAR": (DataType.utf8(), DataType.utf8(), clean_text),
        "JSON": (DataType.utf8(), DataType.utf8(), clean_text),
        "TEXT": (DataType.utf8(), DataType.utf8(), clean_text),  # kept to the letter where that can be
        "BIGINT": (whole, whole, lambda number: fitting(number, 64)),
        "INTEGER": (short, short, lambda number: fitting(number, 32)),
        "TIMESTAMP": (DataType.timestamp("us"), whole, lambda number: fitting(number, 64)),
        "TIMESTAMPTZ": (DataType.timestamp("us", tz="UTC"), whole, lambda number: fitting(number, 64)),
        "DATE": (DataType.date32(), short, lambda number: fitting(number, 32)),
        "DOUBLE": (DataType.float64(), DataType.float64(), float),
        "BOOLEAN": (DataType.bool(), DataType.bool(), bool),
    }


def _array(column: Column, values: list[Any]) -> Array:
    from arro3.core import Array

    kept, built, fit = _types()[column.type]
    if column.type == "JSON":
        values = [value if value is None else clean_json(value) for value in values]
    elif column.type == "VARCHAR" and any("\0" in value for value in filter(None, values)):
        values = [value if value is None else clean_text(value) for value in values]
    try:
        array = Array(values, built)
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
        array = Array([value if value is None else fit(value) for value in values], built)
    return array if kept == built else array.cast(kept)
