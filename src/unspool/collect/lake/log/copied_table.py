"""Copies the log of a Delta table to a local folder, where the library reads it and plans commits without requests.

    load or pull ▶ the library reads, and commits to the copy ▶ publish: new files, then the commit, put if absent

Rules
  1. A commit names its files by their paths in the table. So one that the library made in the copy is valid in the
     table, and needs two kinds of requests: its files, and its name in the log.
  2. Of two commits with one number the store refuses the second, as for any writer of the table. That one is
     compared with those before it, by the rules of the library: the same transaction, a file that both removed, or new
     columns mean that it must be planned again. Otherwise it gets the next free number.
  3. Before a commit, the last one of the copy must be in the log, with the same bytes. Without it, a name that is free
     may be one that was deleted: `lake forget` deletes the log before a checkpoint.
  4. A commit has a random number of its own. If the response to its put is lost, its bytes say whose it is.
  5. A checkpoint replaces `_last_checkpoint` only if nobody else did meanwhile, and never by an older one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from unspool.collect.lake.log.recent_commits import KnownLog
from unspool.collect.object_store import SegmentStore
from unspool.errors import Unreadable
from unspool.format import DECODE_ERRORS

_COMMIT = re.compile(r"(\d{20})\.json")
_LAST = "_last_checkpoint"
_AT_ONCE = 8
"""Objects that are fetched or put in parallel."""


class UnknownCheckpoint(Exception):
    """A checkpoint has a form that is not copied: the table is used where it is."""


class LogReplaced(Exception):
    """The log has lost the commit that a copy ends with."""


class CommitRefused(Exception):
    """A commit depends on what another one has changed meanwhile."""


class _LastCheckpoint(msgspec.Struct, frozen=True, rename="camel"):
    version: int
    parts: int | None = None
    v2_checkpoint: Any = None


class _AddedFile(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    base_row_id: int | None = None


class _RemovedFile(msgspec.Struct, frozen=True):
    path: str


class _TableTransaction(msgspec.Struct, frozen=True, rename="camel"):
    app_id: str


class _CommitInfo(msgspec.Struct, frozen=True, rename="camel"):
    in_commit_timestamp: int | None = None


class _CommitLine(msgspec.Struct, frozen=True, rename="camel"):
    commit_info: _CommitInfo | None = None
    add: _AddedFile | None = None
    remove: _RemovedFile | None = None
    txn: _TableTransaction | None = None
    meta_data: Any = None
    protocol: Any = None
    domain_metadata: Any = None


_line = msgspec.json.Decoder(_CommitLine)


class CommitSummary(NamedTuple):
    """What a commit changes."""

    added: frozenset[str]
    removed: frozenset[str]
    transactions: frozenset[str]
    is_alone: bool
    """Whether it changes what every other commit depends on: columns, or what the format requires."""

    def allows(self, later: CommitSummary) -> bool:
        """Return whether a commit that was planned without this one may follow it."""
        if self.is_alone or later.is_alone or not later.transactions:
            return False
        return self.transactions.isdisjoint(later.transactions) and self.removed.isdisjoint(later.removed)


def summarize_commit(data: bytes) -> CommitSummary:
    """Return what a commit changes."""
    lines = [_line.decode(line) for line in data.splitlines() if line.strip()]
    # Tables with these features, which an ingest does not create, need other numbers in a later commit.
    is_numbered = any(
        (line.add is not None and line.add.base_row_id is not None)
        or (line.commit_info is not None and line.commit_info.in_commit_timestamp is not None)
        for line in lines
    )
    return CommitSummary(
        frozenset(unquote(line.add.path) for line in lines if line.add),
        frozenset(unquote(line.remove.path) for line in lines if line.remove),
        frozenset(line.txn.app_id for line in lines if line.txn),
        is_numbered or any(line.meta_data or line.protocol or line.domain_metadata for line in lines),
    )


class CopiedTable:
    """The log of a table in a local folder, and those of its files that are needed at the time."""

    def __init__(self, object_store: SegmentStore, name: str, folder: Path) -> None:
        self._object_store, self._name, self.folder = object_store, name, folder / name
        self._log = self.folder / "_delta_log"
        self._checkpoint, self._last = -1, b""
        self.version = -1
        """Of the last commit that the log is known to have."""
        self._sizes: dict[int, int] = {}
        """By version: the bytes of the commits from the checkpoint on."""

    @property
    def weight(self) -> tuple[int, int]:
        """The number and bytes of the commits from the checkpoint on."""
        return len(self._sizes), sum(self._sizes.values())

    @property
    def checkpoint(self) -> int:
        """The version of the last checkpoint; -1 without one."""
        return self._checkpoint

    def load(self, known: KnownLog | None) -> bool:
        """Copy the log; return whether it is newer than what was known of it."""
        if known is not None and known.commits and self._start(known.checkpoint):
            # From the checkpoint's own commit on: it tells whether the log is still the same.
            for number, data in enumerate(known.commits, known.first):
                self._keep(number, data)
            return False
        last = self._object_store.get(self._object(_LAST)) or b""
        if not self._start(last):
            raise Unreadable(f"cannot read the log of a table: `{self._name}`", hint="try again")
        self._copy(self._list(self._checkpoint))
        return True

    def pull(self) -> bool:
        """Copy the commits that came since; return whether there are any. `LogReplaced` if the log is another one."""
        # One request tells both: what is new, and that the last commit is still there.
        numbers = self._list(self.version)
        if self.version not in numbers and (self.version in self._sizes or self.is_replaced()):
            raise LogReplaced(self._name)
        newer = [number for number in numbers if number > self.version]
        self._copy(newer)
        return bool(newer)

    def known(self) -> KnownLog:
        """Return the end of the log."""
        numbers = sorted(self._sizes)
        return KnownLog(
            numbers[0] if numbers else 0, [self._path(number).read_bytes() for number in numbers], self._last
        )

    def fetch(self, paths: Iterable[str]) -> bool:
        """Copy files of the table; return False if one of them is gone."""
        missing = [path for path in paths if not (self.folder / path).exists()]

        def copy(path: str) -> bool:
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            return self._object_store.copy_to_file(f"{self._name}/{path}", self.folder / path)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return all(list(pool.map(copy, missing)))

    def publish(self) -> bool:
        """Put the commit that the library made in the copy into the log; return whether others came in between.

        `CommitRefused` if one of those changed what it depends on, `LogReplaced` if the log is another one.
        """
        before = self.version
        mine = self._path(before + 1).read_bytes()
        summary = summarize_commit(mine)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._put_file, sorted(summary.added)))
        if self.is_replaced():
            raise LogReplaced(self._name)
        others = list[bytes]()
        while True:
            number = before + 1 + len(others)
            if self._object_store.put_new(self._object(f"{number:020d}.json"), mine):
                break
            found = self._commit(number)
            if found == mine:
                break
            if found is None or not _allows(found, summary):
                raise CommitRefused(self._name)
            others.append(found)
        for number, data in enumerate((*others, mine), before + 1):
            self._keep(number, data)
        return bool(others)

    def is_replaced(self) -> bool:
        """Return whether the log lacks the last commit of the copy."""
        if self.version not in self._sizes:  # a checkpoint without its commit
            return (self._object_store.get(self._object(_LAST)) or b"") != self._last
        return self._commit(self.version) != self._path(self.version).read_bytes()

    def has_commit(self) -> bool:
        """Return whether the library has made a commit in the copy that is not in the log."""
        return self._path(self.version + 1).exists()

    def discard(self) -> None:
        """Remove a commit from the copy that is not in the log."""
        self._path(self.version + 1).unlink(missing_ok=True)

    def drop_files(self) -> None:
        """Remove the files of the table; the log stays."""
        for path in self.folder.iterdir():
            if path != self._log:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def put_checkpoint(self, table: Any) -> bool:
        """Let the library write a checkpoint of the copy, and put it into the log; return whether it counts.

        Only after a commit: a checkpoint of a log that was replaced before it would be older than the one found here.
        """
        before = self._object_store.stored(self._object(_LAST))
        if before is not None and _decode_last(before.data).version >= self.version:
            return False
        table.create_checkpoint()
        name, last = f"{self.version:020d}.checkpoint.parquet", (self._log / _LAST).read_bytes()
        self._object_store.put_file(self._object(name), self._log / name)
        if self._object_store.replace(self._object(_LAST), last, before):
            self._checkpoint, self._last = self.version, last
            for number in self._sizes.keys() - {self.version}:
                self._path(number).unlink()
                del self._sizes[number]
            return True
        (self._log / name).unlink()
        (self._log / _LAST).write_bytes(self._last) if self._last else (self._log / _LAST).unlink()
        now = self._object_store.get(self._object(_LAST))
        # Another ingest may have put the same checkpoint, and then it counts.
        if now is None or _decode_last(now).version != self.version:
            self._object_store.delete(self._object(name))
        return False

    def _start(self, last: bytes) -> bool:
        """Begin the copy with a checkpoint, or without one; return whether it is there."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._log.mkdir(parents=True)
        self._checkpoint, self._last, self._sizes, self.version = -1, last, {}, -1
        if not last:
            return True
        found = _decode_last(last)
        if found.v2_checkpoint is not None:
            raise UnknownCheckpoint(self._name)
        names = [f"{found.version:020d}.checkpoint.parquet"]
        if found.parts:
            of = f"{found.parts:010d}.parquet"
            names = [f"{found.version:020d}.checkpoint.{part + 1:010d}.{of}" for part in range(found.parts)]
        for name in names:
            data = self._object_store.get(self._object(name))
            if data is None:
                return False
            (self._log / name).write_bytes(data)
        (self._log / _LAST).write_bytes(last)
        self._checkpoint = self.version = found.version
        return True

    def _list(self, version: int) -> list[int]:
        """Return the numbers of the commits in the log from one on."""
        after = self._object(f"{version:020d}") if version >= 0 else None
        listed = (one.name.rpartition("/")[2] for one in self._object_store.names(self._object(""), after=after))
        matches = [match for name in sorted(listed) if (match := _COMMIT.fullmatch(name))]
        # A folder lists what is after a name, and not in order.
        return [number for match in matches if (number := int(match[1])) >= version]

    def _copy(self, numbers: Sequence[int]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            commits = list(pool.map(self._commit, numbers))
        for number, data in zip(numbers, commits, strict=True):
            if data is None or number not in (self._checkpoint, self.version + 1):
                raise Unreadable(f"cannot read the log of a table: `{self._name}`", hint="try again")
            self._keep(number, data)

    def _keep(self, number: int, data: bytes) -> None:
        self._path(number).write_bytes(data)
        self._sizes[number], self.version = len(data), number

    def _commit(self, number: int) -> bytes | None:
        return self._object_store.get(self._object(f"{number:020d}.json"))

    def _put_file(self, path: str) -> None:
        self._object_store.put_file(f"{self._name}/{path}", self.folder / path)

    def _path(self, number: int) -> Path:
        return self._log / f"{number:020d}.json"

    def _object(self, name: str) -> str:
        return f"{self._name}/_delta_log/{name}".rstrip("/")


def _allows(commit: bytes, later: CommitSummary) -> bool:
    """Return whether a commit may follow one that came in between. After one that cannot be read, none may."""
    try:
        return summarize_commit(commit).allows(later)
    except DECODE_ERRORS:
        return False


def _decode_last(data: bytes) -> _LastCheckpoint:
    try:
        return msgspec.json.decode(data, type=_LastCheckpoint)
    except DECODE_ERRORS:
        raise UnknownCheckpoint("_last_checkpoint") from None


def paths_inside(table: Any, folder: Path, where: str | None) -> Sequence[str]:
    """Return the paths in a copied table of its files that may have rows for which a predicate is true."""
    uris = table.file_uris(file_pruning_predicate=where) if where else table.file_uris()
    return [str(Path(unquote(uri)).relative_to(folder)) for uri in uris]
