"""Sessions added up with their agents: digests and answers in, a row of `tallies` for each session out.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

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
    for file, *row in database.execute(_CHANGED, (asked,)):
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
        yield id, *numbers, _encode(ordered).decode(), peak, _encode(found[id]).decode()


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
_CHANGED: Final = """SELECT c.source_id, c.path_id, c.added, c.removed FROM json_each(?) asked
    CROSS JOIN changed_files c ON c.source_id = asked.value"""
_REQUESTS: Final = f"""SELECT a.source_id, a.offset, {_CONTEXT} FROM json_each(?) asked
    CROSS JOIN sources s ON s.id = asked.value JOIN answers a ON a.source_id = s.id AND a.generation = s.generation
    WHERE a.{_MAIN}"""

_encode = msgspec.json.Encoder().encode
_counts = msgspec.json.Decoder(dict[str, int]).decode
_places = msgspec.json.Decoder(list[int]).decode


def _list(values: Iterable[int | str]) -> str:
    """Return values as one, for `json_each`."""
    return _encode(list(values)).decode()
