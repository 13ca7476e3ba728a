"""Reads the last version of each transaction from the log of a Delta table.

The library looks up one transaction at a time and reads the whole log for it; a lake has one for each stream.

Rules
  1. The versions returned belong to one snapshot of the table: the one that is then written to.
  2. Commits before a checkpoint may have been deleted: then the checkpoint is read, in one file or several, whatever
     engine wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.collect.object_store import SegmentStore
from unspool.errors import Unreadable
from unspool.format import DECODE_ERRORS

if TYPE_CHECKING:
    from deltalake import DeltaTable


_FEW_COMMITS = 20
"""Commits that are read faster than a checkpoint is looked up."""


class _Checkpoint(msgspec.Struct, frozen=True):
    version: int


class _Transaction(msgspec.Struct, frozen=True, rename="camel"):
    app_id: str
    version: int


class _Action(msgspec.Struct, frozen=True):
    txn: _Transaction | None = None


_action = msgspec.json.Decoder(_Action)


class TransactionVersions:
    """The transactions of a table, updated commit by commit."""

    def __init__(self, object_store: SegmentStore, table: str) -> None:
        self._object_store, self._log = object_store, f"{table}/_delta_log"
        self._versions: dict[str, int] = {}
        self._read_up_to = -1

    def at(self, table: DeltaTable) -> Mapping[str, int]:
        """Return the transactions of a snapshot, which must not be older than that of the last call."""
        snapshot_version = table.version()
        if self._read_up_to < 0 and snapshot_version > _FEW_COMMITS:
            self._from_checkpoint(snapshot_version)
        while self._read_up_to < snapshot_version:
            data = self._object_store.get(f"{self._log}/{self._read_up_to + 1:020d}.json")
            # Deleted by a clean-up of the log since the last call: a checkpoint has taken its place.
            if data is None:
                before = self._read_up_to
                self._from_checkpoint(snapshot_version)
                if self._read_up_to == before:
                    raise Unreadable(f"cannot read the log of a table: `{self._log}`", hint="try again")
                continue
            self._versions.update(_commit_transactions(data))
            self._read_up_to += 1
        return self._versions

    def _from_checkpoint(self, snapshot_version: int) -> None:
        """Start over from the last checkpoint, unless it is older than what was read or newer than the snapshot."""
        last = self._object_store.get(f"{self._log}/_last_checkpoint")
        try:
            checkpoint = msgspec.json.decode(last, type=_Checkpoint) if last else None
        except DECODE_ERRORS as error:
            raise Unreadable(f"cannot read `{self._log}/_last_checkpoint`: {error}", hint="restore the file") from None
        if checkpoint is None or not self._read_up_to < checkpoint.version <= snapshot_version:
            return
        self._versions, self._read_up_to = {}, checkpoint.version
        prefix = f"{self._log}/{checkpoint.version:020d}.checkpoint"
        for listed in self._object_store.names(self._log):
            if listed.name.startswith(prefix) and (data := self._object_store.get(listed.name)) is not None:
                is_parquet = listed.name.endswith(".parquet")
                self._versions.update(_checkpoint_transactions(data) if is_parquet else _commit_transactions(data))


def _commit_transactions(commit: bytes) -> Iterator[tuple[str, int]]:
    for line in commit.splitlines():
        # Most lines are added files: only those that may be a transaction are decoded.
        if b'"txn"' in line:
            transaction = _action.decode(line).txn
            if transaction:
                yield transaction.app_id, transaction.version


def _checkpoint_transactions(data: bytes) -> Iterator[tuple[str, int]]:
    from arro3.io import read_parquet

    actions: Any = read_parquet(BytesIO(data)).read_all()
    for transaction in actions.column("txn").to_pylist():
        if transaction is not None:
            yield transaction["appId"], transaction["version"]
