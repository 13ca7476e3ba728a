"""Reads the last version of each transaction from the log of a Delta table.

The library looks up one transaction at a time and reads the whole log for it; a lake has one for each stream.

Rules
  1. What is returned belongs to one snapshot of the table: the one that is then written to.
  2. Commits that a checkpoint stands for may be gone: then it is read, whoever wrote it and in how many pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.collect.object_store import SegmentStore
from unspool.errors import Unreadable

if TYPE_CHECKING:
    from deltalake import DeltaTable


_FEW = 20
"""Commits that are read faster than a checkpoint is looked for."""


class _Checkpoint(msgspec.Struct, frozen=True):
    version: int


class _Taken(msgspec.Struct, frozen=True, rename="camel"):
    app_id: str
    version: int


class _Action(msgspec.Struct, frozen=True):
    txn: _Taken | None = None


_action = msgspec.json.Decoder(_Action)


class TransactionVersions:
    """What is known of a table's transactions, brought forward commit by commit."""

    def __init__(self, place: SegmentStore, table: str) -> None:
        self._place, self._log = place, f"{table}/_delta_log"
        self._found: dict[str, int] = {}
        self._reached = -1

    def at(self, table: DeltaTable) -> Mapping[str, int]:
        """Return the transactions of a snapshot, which must not be older than the one before."""
        wanted = table.version()
        if self._reached < 0 and wanted > _FEW:
            self._from_checkpoint(wanted)
        while self._reached < wanted:
            data = self._place.get(f"{self._log}/{self._reached + 1:020d}.json")
            if data is None:
                before = self._reached
                self._from_checkpoint(wanted)
                if self._reached == before:
                    raise Unreadable(f"the log of a table cannot be read: `{self._log}`", hint="try again")
                continue
            self._found.update(_transactions(data))
            self._reached += 1
        return self._found

    def _from_checkpoint(self, wanted: int) -> None:
        """Begin anew, if there is one that helps."""
        last = self._place.get(f"{self._log}/_last_checkpoint")
        found = msgspec.json.decode(last, type=_Checkpoint) if last else None
        if found is None or not self._reached < found.version <= wanted:
            return
        self._found, self._reached = {}, found.version
        start = f"{self._log}/{found.version:020d}.checkpoint"
        for one in self._place.names(self._log):
            if one.name.startswith(start) and (data := self._place.get(one.name)) is not None:
                self._found.update(_checkpointed(data) if one.name.endswith(".parquet") else _transactions(data))


def _transactions(commit: bytes) -> Iterator[tuple[str, int]]:
    for line in commit.splitlines():
        if b'"txn"' in line:
            taken = _action.decode(line).txn
            if taken:
                yield taken.app_id, taken.version


def _checkpointed(data: bytes) -> Iterator[tuple[str, int]]:
    from arro3.io import read_parquet

    actions: Any = read_parquet(BytesIO(data)).read_all()
    for taken in actions.column("txn").to_pylist():
        if taken is not None:
            yield taken["appId"], taken["version"]
