"""What lists show of a file's lines beside its facts: tool calls, changed files, compactions. Lines in, a digest out.

Rules
  1. The first call and the first result of an id count, as in `graph/tool_calls.py`, however far apart they stand.
  2. A file is changed by a call of `Write`, `Edit`, `MultiEdit` or `NotebookEdit` that did not fail. How many lines
     that added and removed is what the patch in its result says; a file that was created is all additions.
  3. Lines may be taken in several goes, with the state written down in between: the outcome is the same.

[merged: tallies.py] Sessions added up with their agents: digests and answers in, a row of `tallies` for each session out.

Rules
  1. A tally is made from rows alone: made again, it is the same. It is written in the transaction that changed them.
  2. An agent belongs to the sessions that `agents` says, in the same project. Of two files of one agent the longer one
     is taken: they tell of the same calls.
  3. The context is that of the main chain, request by request as the file has them. A point of the curve stands for the
     fullest of its requests, so the peak is always on it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from unspool.format.base import UNDECODABLE, Buffer, CamelShape
from unspool.format.plain_lines import whole
from unspool.format.projections import Outcome
from unspool.graph.search_text import said

POINTS: Final = 40
"""Of a curve at most."""

_MAIN: Final = "agent_id IS NULL AND marks & 3 = 0"
"""Answers of the main chain, told by their own lines."""
_CONTEXT: Final = "input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens"


class Curve(msgspec.Struct, frozen=True):
    """How full the context was."""

    points: tuple[int, ...] = ()
    """Tokens, over the requests."""
    compactions: tuple[int, ...] = ()
    """Before which point a compaction was: 0 is before the first one, as many as there are points after the last."""
    requests: int = 0


def add_up(database: sqlite3.Connection, sources: Iterable[int]) -> None:
    """Add up the sessions that some files belong to."""
    ids = list(sources)
    for start in range(0, len(ids), _AT_ONCE):
        sessions = [_Session(*row) for row in database.execute(_SESSIONS, (_list(ids[start : start + _AT_ONCE]),))]
        database.executemany("INSERT OR REPLACE INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?)", _rows(database, sessions))


def curves(database: sqlite3.Connection, compactions: Mapping[int, Sequence[int]]) -> dict[int, Curve]:
    """Return how full the contexts of sessions were, given their files and the offsets at which they were compacted."""
    found: dict[int, list[tuple[int, int]]] = {id: [] for id in compactions}
    for id, offset, tokens in database.execute(_REQUESTS, (_list(compactions),)):
        found[id].append((offset, tokens))
    return {id: curve_of(sorted(requests), compactions[id]) for id, requests in found.items()}


def curve_of(requests: Sequence[tuple[int, int]], compactions: Sequence[int]) -> Curve:
    """Return a curve of requests, each an offset and its tokens, in order.

    >>> curve_of([(0, 10), (5, 30), (9, 20)], [7])
    Curve(points=(10, 30, 20), compactions=(2,), requests=3)
    """
    count = len(requests)
    buckets = min(count, POINTS)
    points = [0] * buckets
    for number, (_, tokens) in enumerate(requests):
        at = number * buckets // count
        points[at] = max(points[at], tokens)
    before = (sum(offset < place for offset, _ in requests) for place in compactions)
    return Curve(tuple(points), tuple(-(-number * buckets // count) if count else 0 for number in before), count)


class _Session(NamedTuple):
    source_id: int
    session_id: str
    project: str | None
    home_id: int


def _rows(database: sqlite3.Connection, sessions: Sequence[_Session]) -> Iterator[tuple[object, ...]]:
    files = {one.source_id: [one.source_id] for one in sessions}
    for id, of in _agents(database, sessions).items():
        files[id] += of
    asked = _list({file for those in files.values() for file in those})
    digests = {row[0]: (_counts(row[1]), _places(row[2])) for row in database.execute(_DIGESTS, (asked,))}
    changed: dict[int, list[tuple[int, int, int]]] = {}
    for file, *row in database.execute(_CHANGED_tallies, (asked,)):
        changed.setdefault(file, []).append((row[0], row[1], row[2]))
    found = curves(database, {id: digests[id][1] if id in digests else () for id in files})
    for id, those in files.items():
        tools: Counter[str] = Counter()
        for file in those:
            tools.update(digests[file][0] if file in digests else {})
        changes = [row for file in those for row in changed.get(file, ())]
        ordered = dict(sorted(tools.items(), key=lambda item: (-item[1], item[0])))
        numbers = (len({row[0] for row in changes}), sum(row[1] for row in changes), sum(row[2] for row in changes))
        peak = max(found[id].points, default=None)
        yield id, *numbers, _encode_tallies(ordered).decode(), peak, _encode_tallies(found[id]).decode()


def _agents(database: sqlite3.Connection, sessions: Sequence[_Session]) -> dict[int, list[int]]:
    """Return the files of the agents of each session, one of each agent."""
    by_place: dict[tuple[str, str | None, int], list[int]] = {}
    for one in sessions:
        by_place.setdefault((one.session_id, one.project, one.home_id), []).append(one.source_id)
    found: dict[int, dict[str, int]] = {}
    asked = _list({one.session_id for one in sessions})
    for session, project, home, agent, file in database.execute(_AGENTS, (asked,)):
        for id in by_place.get((session, project, home), ()):
            found.setdefault(id, {})[agent] = file  # the longest comes last
    return {id: list(agents.values()) for id, agents in found.items()}


_AT_ONCE: Final = 500
_SESSIONS: Final = """WITH asked AS MATERIALIZED (SELECT value AS id FROM json_each(?))
    SELECT s.id, n.session_id, s.project, s.home_id FROM asked
    CROSS JOIN sessions n ON n.source_id = asked.id CROSS JOIN sources s ON s.id = n.source_id
    UNION SELECT s.id, n.session_id, s.project, s.home_id FROM asked
    CROSS JOIN agents a ON a.source_id = asked.id CROSS JOIN sources f ON f.id = a.source_id
    CROSS JOIN sessions n ON n.session_id = a.session_id CROSS JOIN sources s ON s.id = n.source_id
    WHERE s.project IS f.project AND s.home_id = f.home_id"""
"""The order of the tables is said: SQLite does not know that few are asked for."""
_AGENTS: Final = """SELECT a.session_id, s.project, s.home_id, a.agent_id, s.id FROM json_each(?) asked
    CROSS JOIN agents a ON a.session_id = asked.value JOIN sources s ON s.id = a.source_id ORDER BY s.offset, s.path"""
_DIGESTS: Final = """SELECT d.source_id, d.tools, d.compactions FROM json_each(?) asked
    CROSS JOIN digests d ON d.source_id = asked.value JOIN sources s ON s.id = d.source_id
    WHERE s.generation = d.generation"""
_CHANGED_tallies: Final = """SELECT c.source_id, c.path_id, c.added, c.removed FROM json_each(?) asked
    CROSS JOIN changed_files c ON c.source_id = asked.value"""
_REQUESTS: Final = f"""SELECT a.source_id, a.offset, {_CONTEXT} FROM json_each(?) asked
    CROSS JOIN sources s ON s.id = asked.value JOIN answers a ON a.source_id = s.id AND a.generation = s.generation
    WHERE a.{_MAIN}"""

_encode_tallies = msgspec.json.Encoder().encode
_counts = msgspec.json.Decoder(dict[str, int]).decode
_places = msgspec.json.Decoder(list[int]).decode


def _list(values: Iterable[int | str]) -> str:
    """Return values as one, for `json_each`."""
    return _encode_tallies(list(values)).decode()


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
