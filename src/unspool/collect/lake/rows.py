"""Rows of many streams, held as columns until they are written: rows in, batches of Arrow out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from unspool.collect.lake.tables import tables
from unspool.store.parquet import batch

_CHUNK = 16 * 1024 * 1024
"""Bytes of lines whose rows are held as Python's objects."""

_FIRST, _AFTER = 10_957, 47_482
"""Days since 1970 of 2000-01-01 and 2100-01-01. A time before or after says nothing of when a line was written."""
_DAY = 86_400_000_000


class Whose(NamedTuple):
    """Whose rows they are, and from which stream."""

    org: str
    user: str
    device: str
    stream: str


class Rows:
    """Takes rows and keeps them as columns."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[object, ...]]] = {}
        self._weight = 0
        self._batches: dict[str, list[Any]] = {}

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Take a row."""
        held = self._held.get(table)
        if held is None:
            self._held[table] = [row]
        else:
            held.append(row)

    def weigh(self, length: int) -> None:
        """Tell how many bytes the rows since then were made from."""
        self._weight += length
        if self._weight >= _CHUNK:
            self._flush()

    def batches(self, table: str) -> Sequence[Any]:
        """Return the rows of a table."""
        if self._held:
            self._flush()
        return self._batches.get(table, ())

    def _flush(self) -> None:
        for table, rows in self._held.items():
            self._batches.setdefault(table, []).append(batch(tables()[table], rows))
        self._held, self._weight = {}, 0


def day_of(micros: object) -> int | None:
    """Return the day of a time, as days since 1970; nothing for a time that cannot be meant.

    >>> day_of(1_767_225_600_000_000)
    20454
    """
    if not isinstance(micros, int):
        return None
    day = micros // _DAY
    return day if _FIRST <= day < _AFTER else None
