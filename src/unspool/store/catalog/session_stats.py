"""Counts tool calls, changed files and compactions of sessions, and how full their context was.

Lines are counted file by file (table `digests`, while the text index reads them), and added up session by session with
the files of its agents (table `tallies`).

Rules
  1. The first call and the first result of an id count, as in `graph/tool_calls.py`, however far apart they stand.
  2. A file is changed by a call of `Write`, `Edit`, `MultiEdit` or `NotebookEdit` that did not fail. How many lines
     that added and removed is what the patch in its result says; a file that was created is all additions.
  3. Lines may be counted in several goes, with the state written down in between: the outcome is the same.
  4. Totals are made from rows alone: made again, they are the same. They are written in the transaction that changed
     the rows.
  5. An agent belongs to the sessions that `agents` says, in the same project. Of two files of one agent the longer one
     is taken: they hold the same calls.
  6. The context is that of the main thread, request by request as the file has them. A point of the curve stands for
     the fullest of its requests, so the peak is always on it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from unspool.format import DECODE_ERRORS, Assistant, Buffer, Entry, ToolResult, User, decode, decode_file_change
from unspool.format.tools import EDIT_TOOLS

_MAX_UNPAIRED = 1000
"""Calls without a result, and results without a call, that are remembered at most."""
_SESSIONS_PER_QUERY: Final = 500

POINTS: Final = 40
"""Points of a curve at most."""


class FileChangeCounts(msgspec.Struct):
    """How often a file was changed, and how many lines that added and removed."""

    changes: int = 0
    added: int = 0
    removed: int = 0


class SessionBeginning(NamedTuple):
    """The first message of a session."""

    message: str
    """What its copies have in common: resuming and forking copy a line with its uuid and its time."""
    forked_from: str | None
    """The session that this one was forked from, if the message says so."""


def parse_beginning(line: Buffer) -> SessionBeginning | None:
    """Return the beginning of a session if a line is it: the first line of a message that is no agent's."""
    first = next((record for record in _spoken_records(line) if record.uuid and not record.is_sidechain), None)
    if first is None:
        return None
    origin = first.forked_from.get("sessionId") if isinstance(first.forked_from, dict) else None
    return SessionBeginning(f"{first.uuid} {first.timestamp or ''}", origin if isinstance(origin, str) else None)


class FileStats(msgspec.Struct, omit_defaults=True):
    """What was counted in the lines of a file so far; its fields are the state kept between two goes."""

    tools: dict[str, int] = {}
    compactions: list[int] = []
    beginning: str | None = None
    forked_from: str | None = None
    seen: set[int] = set()
    """Hashes of the ids of calls that were counted in an earlier go."""
    recent: set[str] = set()
    """The ids of calls that were counted in this go."""
    open: dict[str, str] = {}
    """Calls that change a file unless their result is an error, and the file."""
    early: dict[str, tuple[int, int] | None] = {}
    """What results that came before their call have added and removed; None for those that failed."""
    is_whole: bool = True

    def find_beginning(self, line: Buffer) -> None:
        """Note the beginning of the conversation if it is this line; no line is tried after the first that is."""
        found = parse_beginning(line)
        if found is not None:
            self.beginning, self.forked_from = found

    def add_call(self, id: str, tool: str | None, target: str | None, changed: dict[str, FileChangeCounts]) -> None:
        """Count a tool call."""
        if self._is_counted(id):
            return
        self.recent.add(id)  # the id itself: it is hashed once, when the state is written down
        self.tools[tool or ""] = self.tools.get(tool or "", 0) + 1
        early = self.early.pop(id, _NO_RESULT) if self.early else _NO_RESULT
        if tool in EDIT_TOOLS and target:
            if early is _NO_RESULT:
                self.open[id] = target
                _drop_oldest(self.open)
            elif early is not None:
                _add_change(changed, target, *early)

    def add_result(self, id: str, line: Buffer | None, changed: dict[str, FileChangeCounts]) -> None:
        """Count the result of a tool call: the line it stands on, or None if it failed."""
        path = self.open.pop(id, None)
        if path is None:
            if not self._is_counted(id) and id not in self.early:
                self.early[id] = None if line is None else count_changed_lines(line, id)
                _drop_oldest(self.early)
        elif line is not None:
            _add_change(changed, path, *count_changed_lines(line, id))

    def _is_counted(self, id: str) -> bool:
        return id in self.recent or (bool(self.seen) and _hash(id) in self.seen)

    def encode(self) -> bytes:
        """Return the state as MessagePack, for `decode_file_stats`."""
        state = msgspec.structs.replace(self, seen=self.seen | set(map(_hash, self.recent)), recent=set())
        return msgspec.msgpack.encode(state)


class FileStatsUpdate(msgspec.Struct):
    """The statistics of a file that are to be written, with the files that were changed since the last time."""

    source_id: int
    generation: int
    is_new: bool
    """Whether nothing that was written before is valid."""
    changed: dict[str, FileChangeCounts] = {}
    row: tuple[Any, ...] = ()

    def add(self, offset: int, stats: FileStats, changed: dict[str, FileChangeCounts]) -> None:
        """Note how far the statistics go, and which files were changed since the last time."""
        beginning = (int(stats.is_whole), stats.beginning, stats.forked_from)
        key = (self.source_id, self.generation)
        self.row = (*key, offset, *beginning, _json(stats.tools), _json(stats.compactions), stats.encode())
        self._add_changes(changed)

    def merge(self, later: FileStatsUpdate) -> None:
        """Take over a later update of the same file."""
        self.row = later.row
        self._add_changes(later.changed)

    def _add_changes(self, changed: Mapping[str, FileChangeCounts]) -> None:
        for path, counts in changed.items():
            _add_change(self.changed, path, counts.added, counts.removed, counts.changes)


def decode_file_stats(state: bytes | None) -> FileStats:
    """Return statistics to go on with, from the state that the store keeps."""
    return _decode_state(state) if state else FileStats()


def write_file_stats(database: sqlite3.Connection, updates: Mapping[int, FileStatsUpdate]) -> None:
    """Write statistics of files, and add up the sessions that they belong to; call it in a transaction."""
    run = database.executemany
    run("DELETE FROM changed_files WHERE source_id = ?", [(id,) for id, update in updates.items() if update.is_new])
    run(f"INSERT OR REPLACE INTO digests VALUES ({', '.join('?' * 9)})", [update.row for update in updates.values()])
    paths = {path for update in updates.values() for path in update.changed}
    run("INSERT OR IGNORE INTO paths (path) VALUES (?)", [(path,) for path in paths])
    changed = [
        (id, path, counts.changes, counts.added, counts.removed)
        for id, update in updates.items()
        for path, counts in update.changed.items()
    ]
    run(_ADD_CHANGES, changed)
    write_session_totals(database, updates)


_ADD_CHANGES: Final = """INSERT INTO changed_files SELECT ?1, id, ?3, ?4, ?5 FROM paths WHERE path = ?2
    ON CONFLICT DO UPDATE SET changes = changes + ?3, added = added + ?4, removed = removed + ?5"""


def count_changed_lines(line: Buffer, id: str) -> tuple[int, int]:
    """Return how many lines a tool call has added to a file and removed from it, by the line of its result."""
    for record in _spoken_records(line):
        results = (block for block in record.message.blocks if isinstance(block, ToolResult))
        if isinstance(record, User) and any(result.tool_use_id == id for result in results):
            with suppress(*DECODE_ERRORS):
                return decode_file_change(record.tool_use_result).count_changed_lines() or (0, 0)
    return 0, 0


def _spoken_records(line: Buffer) -> Iterator[User | Assistant]:
    """Yield what is said on a line: nearly always one record."""
    for item in decode(line):
        if isinstance(item, Entry) and isinstance(item.record, User | Assistant):
            yield item.record


_decode_state = msgspec.msgpack.Decoder(FileStats).decode
_decode_counts = msgspec.json.Decoder(dict[str, int]).decode
_decode_offsets = msgspec.json.Decoder(list[int]).decode
_NO_RESULT: Final[Any] = object()


def _hash(id: str) -> int:
    # Not `hash`, which differs from process to process.
    return int.from_bytes(blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _add_change(changed: dict[str, FileChangeCounts], path: str, added: int, removed: int, changes: int = 1) -> None:
    counts = changed.setdefault(path, FileChangeCounts())
    counts.changes += changes
    counts.added += added
    counts.removed += removed


def _drop_oldest(waiting: dict[str, Any]) -> None:
    if len(waiting) > _MAX_UNPAIRED:
        del waiting[next(iter(waiting))]


class ContextCurve(msgspec.Struct, frozen=True):
    """How full the context of a session was, request by request."""

    points: tuple[int, ...] = ()
    """Tokens, over the requests."""
    compactions: tuple[int, ...] = ()
    """Before which point a compaction was: 0 is before the first one, as many as there are points after the last."""
    requests: int = 0


def write_session_totals(database: sqlite3.Connection, sources: Iterable[int]) -> None:
    """Add up the sessions that some files belong to, and write their totals."""
    ids = list(sources)
    for start in range(0, len(ids), _SESSIONS_PER_QUERY):
        ids_json = _json(ids[start : start + _SESSIONS_PER_QUERY])
        rows = _total_rows(database, [_Session(*row) for row in database.execute(_SESSIONS, (ids_json,))])
        database.executemany("INSERT OR REPLACE INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def read_context_curves(
    database: sqlite3.Connection, compactions: Mapping[int, Sequence[int]]
) -> dict[int, ContextCurve]:
    """Return how full the contexts of sessions were, given their files and the offsets at which they were compacted."""
    requests: dict[int, list[tuple[int, int]]] = {id: [] for id in compactions}
    for id, offset, tokens in database.execute(_REQUESTS, (_json(list(compactions)),)):
        requests[id].append((offset, tokens))
    return {id: build_context_curve(sorted(points), compactions[id]) for id, points in requests.items()}


def build_context_curve(requests: Sequence[tuple[int, int]], compactions: Sequence[int]) -> ContextCurve:
    """Return a curve of requests, each an offset and its tokens, in order.

    >>> build_context_curve([(0, 10), (5, 30), (9, 20)], [7])
    ContextCurve(points=(10, 30, 20), compactions=(2,), requests=3)
    """
    count = len(requests)
    buckets = min(count, POINTS)
    points = [0] * buckets
    for number, (_, tokens) in enumerate(requests):
        at = number * buckets // count
        points[at] = max(points[at], tokens)
    before = (sum(offset < place for offset, _ in requests) for place in compactions)
    return ContextCurve(tuple(points), tuple(-(-number * buckets // count) if count else 0 for number in before), count)


class _Session(NamedTuple):
    source_id: int
    session_id: str
    project: str | None
    home_id: int


def _total_rows(database: sqlite3.Connection, sessions: Sequence[_Session]) -> Iterator[tuple[object, ...]]:
    files = {session.source_id: [session.source_id] for session in sessions}
    for id, agent_files in _agent_files(database, sessions).items():
        files[id] += agent_files
    ids_json = _json({file for those in files.values() for file in those})
    tools, compactions = {}, {}
    for file, counts, offsets in database.execute(_FILE_STATS, (ids_json,)):
        tools[file], compactions[file] = _decode_counts(counts), _decode_offsets(offsets)
    changed: dict[int, list[tuple[int, int, int]]] = {}
    for file, path, added, removed in database.execute(_CHANGED_FILES, (ids_json,)):
        changed.setdefault(file, []).append((path, added, removed))
    curves = read_context_curves(database, {id: compactions.get(id, ()) for id in files})
    for id, those in files.items():
        calls: Counter[str] = Counter()
        for file in those:
            calls.update(tools.get(file, {}))
        ordered = dict(sorted(calls.items(), key=lambda item: (-item[1], item[0])))
        changes = [change for file in those for change in changed.get(file, ())]
        paths = {path for path, _, _ in changes}
        lines = (sum(added for _, added, _ in changes), sum(removed for _, _, removed in changes))
        yield id, len(paths), *lines, _json(ordered), max(curves[id].points, default=None), _json(curves[id])


def _agent_files(database: sqlite3.Connection, sessions: Sequence[_Session]) -> dict[int, list[int]]:
    """Return the files of the agents of each session, one of each agent."""
    ids: dict[tuple[str, str | None, int], list[int]] = {}
    for session in sessions:
        ids.setdefault((session.session_id, session.project, session.home_id), []).append(session.source_id)
    files: dict[int, dict[str, int]] = {}
    ids_json = _json({session.session_id for session in sessions})
    for session_id, project, home, agent, file in database.execute(_AGENTS, (ids_json,)):
        for id in ids.get((session_id, project, home), ()):
            files.setdefault(id, {})[agent] = file  # the longest comes last
    return {id: list(agents.values()) for id, agents in files.items()}


_SESSIONS: Final = """WITH asked AS MATERIALIZED (SELECT value AS id FROM json_each(?))
    SELECT s.id, n.session_id, s.project, s.home_id FROM asked
    CROSS JOIN sessions n ON n.source_id = asked.id CROSS JOIN sources s ON s.id = n.source_id
    UNION SELECT s.id, n.session_id, s.project, s.home_id FROM asked
    CROSS JOIN agents a ON a.source_id = asked.id CROSS JOIN sources f ON f.id = a.source_id
    CROSS JOIN sessions n ON n.session_id = a.session_id CROSS JOIN sources s ON s.id = n.source_id
    WHERE s.project IS f.project AND s.home_id = f.home_id"""
"""`CROSS JOIN` fixes the order of the tables: SQLite does not know that few are asked for."""
_AGENTS: Final = """SELECT a.session_id, s.project, s.home_id, a.agent_id, s.id FROM json_each(?) asked
    CROSS JOIN agents a ON a.session_id = asked.value JOIN sources s ON s.id = a.source_id ORDER BY s.offset, s.path"""
_FILE_STATS: Final = """SELECT d.source_id, d.tools, d.compactions FROM json_each(?) asked
    CROSS JOIN digests d ON d.source_id = asked.value JOIN sources s ON s.id = d.source_id
    WHERE s.generation = d.generation"""
_CHANGED_FILES: Final = """SELECT c.source_id, c.path_id, c.added, c.removed FROM json_each(?) asked
    CROSS JOIN changed_files c ON c.source_id = asked.value"""
_REQUESTS: Final = """SELECT a.source_id, a.offset,
    input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens FROM json_each(?) asked
    CROSS JOIN sources s ON s.id = asked.value JOIN answers a ON a.source_id = s.id AND a.generation = s.generation
    WHERE a.agent_id IS NULL AND marks & 3 = 0"""
"""Requests of the main thread: `marks` 1 is a sidechain, 2 a response repeated by a progress line."""


def _json(value: object) -> str:
    """Return a value as JSON: for a column, or a set of ids for `json_each`."""
    return msgspec.json.encode(value).decode()
