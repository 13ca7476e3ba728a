"""What lists show of a file's lines beside its facts: tool calls, changed files, compactions. Lines in, a digest out.

Rules
  1. The first call and the first result of an id count, as in `graph/calls.py`, however far apart they stand.
  2. A file is changed by a call of `Write`, `Edit`, `MultiEdit` or `NotebookEdit` that did not fail. How many lines
     that added and removed is what the patch in its result says; a file that was created is all additions.
  3. Lines may be taken in several goes, with the state written down in between: the outcome is the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from unspool.format.changes import Outcome
from unspool.format.plain import whole
from unspool.format.shape import UNDECODABLE, Buffer, CamelShape
from unspool.graph.passages import said
from unspool.store.tallies import add_up

CHANGING: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
"""Tools that change a file."""

_OPEN = 1000
"""Calls without a result, and results without a call, that are remembered at most."""


class Changed(msgspec.Struct):
    """What was done to a file."""

    changes: int = 0
    added: int = 0
    removed: int = 0


class Digest(msgspec.Struct, omit_defaults=True):
    """What was seen of a file so far."""

    tools: dict[str, int] = {}
    compactions: list[int] = []
    beginning: str | None = None
    forked_from: str | None = None
    seen: set[int] = set()
    """Hashes of the ids of calls that were taken in an earlier go."""
    recent: set[str] = set()
    """The ids of the others."""
    open: dict[str, str] = {}
    """Calls that will have changed a file, and which, unless their result is an error."""
    early: dict[str, tuple[int, int] | None] = {}
    """What results that came before their call have added and removed; nothing of those that failed."""
    is_whole: bool = True

    def begins(self, line: Buffer) -> None:
        """Look whether the conversation begins with a line; not asked again after the first that does."""
        try:
            found = _first(line)
        except UNDECODABLE:
            return
        if found.type in ("user", "assistant") and found.uuid and not found.is_sidechain:
            self.beginning = f"{found.uuid} {found.timestamp or ''}"
            origin = found.forked_from.get("sessionId") if isinstance(found.forked_from, dict) else None
            self.forked_from = origin if isinstance(origin, str) else None

    def call(self, id: str, tool: str | None, target: str | None, changed: dict[str, Changed]) -> None:
        """Take a tool call."""
        if self._has(id):
            return
        self.recent.add(id)
        self.tools[tool or ""] = self.tools.get(tool or "", 0) + 1
        early = self.early.pop(id, _NONE) if self.early else _NONE
        if tool in CHANGING and target:
            if early is _NONE:
                self.open[id] = target
                _forget(self.open)
            elif early is not None:
                _add(changed, target, *early)

    def result(self, id: str, line: Buffer | None, changed: dict[str, Changed]) -> None:
        """Take the result of a tool call: the line it stands on, or nothing if it failed."""
        path = self.open.pop(id, None)
        if path is None:
            if not self._has(id) and id not in self.early:
                self.early[id] = None if line is None else lines_changed(line, id)
                _forget(self.early)
        elif line is not None:
            _add(changed, path, *lines_changed(line, id))

    def _has(self, id: str) -> bool:
        return id in self.recent or (bool(self.seen) and _hash(id) in self.seen)

    def written_down(self) -> bytes:
        """Return it as MessagePack, to be taken up again."""
        state = msgspec.structs.replace(self, seen=self.seen | set(map(_hash, self.recent)), recent=set())
        return _encode(state)


class Written:
    """A digest as it is to be written, with what is new of it."""

    def __init__(self, source_id: int, generation: int, *, is_new: bool) -> None:
        self._key = (source_id, generation)
        self.is_new = is_new
        self.changed: dict[str, Changed] = {}
        self.row: tuple[object, ...] = ()

    def take(self, offset: int, digest: Digest, changed: dict[str, Changed]) -> None:
        """Note how far the digest goes, and what was changed since the last time."""
        tools, compactions = (msgspec.json.encode(part).decode() for part in (digest.tools, digest.compactions))
        about = (int(digest.is_whole), digest.beginning, digest.forked_from)
        self.row = (*self._key, offset, *about, tools, compactions, digest.written_down())
        for path, one in changed.items():
            _add(self.changed, path, one.added, one.removed, one.changes)


def read_digest(state: bytes | None) -> Digest:
    """Return a digest to go on with."""
    return _decode(state) if state else Digest()


def write_digests(database: sqlite3.Connection, digests: Mapping[int, Written]) -> None:
    """Write digests, and add up the sessions that they are of. What changes is written by the caller's transaction."""
    run = database.executemany
    run("DELETE FROM changed_files WHERE source_id = ?", [(id,) for id, one in digests.items() if one.is_new])
    run(f"INSERT OR REPLACE INTO digests VALUES ({', '.join('?' * 9)})", [one.row for one in digests.values()])
    paths = {path for one in digests.values() for path in one.changed}
    run("INSERT OR IGNORE INTO paths (path) VALUES (?)", [(path,) for path in paths])
    changed = [
        (id, path, one.changes, one.added, one.removed)
        for id, written in digests.items()
        for path, one in written.changed.items()
    ]
    run(_CHANGED, changed)
    add_up(database, digests)


_CHANGED = """INSERT INTO changed_files SELECT ?1, id, ?3, ?4, ?5 FROM paths WHERE path = ?2
    ON CONFLICT DO UPDATE SET changes = changes + ?3, added = added + ?4, removed = removed + ?5"""


def lines_changed(line: Buffer, id: str) -> tuple[int, int]:
    """Return how many lines the tool call whose result a line is has added to a file and removed from it."""
    try:
        found = _result(line).tool_use_result
    except UNDECODABLE:
        found = _damaged(line, id)
    return (found.lines() if found else None) or (0, 0)


class _Result(CamelShape, frozen=True):
    tool_use_result: Outcome | None = None


class _First(CamelShape, frozen=True):
    type: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    forked_from: object = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Digest).decode
_result: Callable[[Buffer], _Result] = msgspec.json.Decoder(_Result).decode
_first: Callable[[Buffer], _First] = msgspec.json.Decoder(_First).decode
_NONE: Final[Any] = object()


def _damaged(line: Buffer, id: str) -> Outcome | None:
    """Return a result from a line that has to be mended, holds several objects, or says something else there."""
    for _, value in whole(line):
        if isinstance(value, dict) and any(passage.call == id for passage in said(value)):
            try:
                return msgspec.convert(value.get("toolUseResult"), Outcome)
            except UNDECODABLE:
                continue
    return None


def _hash(id: str) -> int:
    return int.from_bytes(blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _add(changed: dict[str, Changed], path: str, added: int, removed: int, changes: int = 1) -> None:
    one = changed.setdefault(path, Changed())
    one.changes += changes
    one.added += added
    one.removed += removed


def _forget(waiting: dict[str, Any]) -> None:
    if len(waiting) > _OPEN:
        del waiting[next(iter(waiting))]
