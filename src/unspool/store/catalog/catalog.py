"""The catalogue of sessions: what is wanted in, rows, their number and facets out, all from rows of the store.

Rules
  1. The order is the same every time: what is equal in the column is ordered by time, then by id and path. What is not
     known comes last, whichever way round.
  2. Sessions that share their beginning are one thread: resumed and forked ones stand folded under the one that went on
     last, which is the row (`folding.py`).
  3. What nobody knows is None: files, lines and tools while their lines were not looked at (`digests.sql`).
  4. A session that has gone is left out where another file has it still, as in `listing.py`.

[merged: folding.py] Sessions folded into threads: sessions in, one row for each thread out.

Rules
  1. Sessions are of one thread if the first line of their conversations is the same, by its uuid and time: resuming and
     forking copy lines with both. A shared answer further on is not enough: excerpts of a session are no forks of it.
  2. So are a session and the one that it says it was forked from (`forkedFrom`), if that is there.
  3. The row of a thread is, among those that are wanted, the session that went on last.

[merged: listing.py] The sessions of a folder as rows, from the store: what `export.counts.row` tells of each, and what filters need.

[merged: shelf.py] The catalogue kept at hand: for who asks again and again, while the store changes now and then.

Rules
  1. Sessions are read again when another connection has written to the store, and only then (`PRAGMA data_version`).
  2. It may be asked by any thread; one is answered at a time.
  3. A store that was made again is another file: the one that was open is let go of.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from unspool.store.access import Opened
from unspool.store.catalog.facets import Facets, Filters, Listed
from unspool.store.catalog.session_stats import Curve, curves
from unspool.store.database import STORE, open_store, telling
from unspool.store.preferences import Settings
from unspool.store.sync.changes import WITHIN, edition_of, within
from unspool.store.usage.ledger import Ledger
from unspool.store.usage.ledger import Wanted as ledger_Wanted


class Thread(NamedTuple):
    """Sessions that share their beginning."""

    head: Listed
    others: tuple[Listed, ...]


def folded(wanted: Sequence[Listed], every: Iterable[Listed], only: str | None = None) -> list[Thread]:
    """Return the threads of some sessions, given all there are; `only` asks for one thread, each session for itself."""
    family = _families(every)
    if only is not None:
        same = {family[one.source_id] for one in every if one.id == only}
        return [Thread(one, ()) for one in wanted if family[one.source_id] in same]
    groups: dict[int, list[Listed]] = {}
    for one in wanted:
        groups.setdefault(family[one.source_id], []).append(one)
    return [_thread(group) if len(group) > 1 else Thread(group[0], ()) for group in groups.values()]


def _thread(group: list[Listed]) -> Thread:
    ordered = sorted(group, key=lambda one: (one.last or "", one.id, one.path), reverse=True)
    return Thread(ordered[0], tuple(ordered[1:]))


def _families(every: Iterable[Listed]) -> dict[int, int]:
    """Return for each session what its thread is known by: the first of its sessions."""
    parent: dict[int, int] = {}
    first: dict[str, int] = {}
    by_id: dict[str, int] = {}
    forks: list[tuple[int, str]] = []
    for one in every:
        parent[one.source_id] = one.source_id
        by_id.setdefault(one.id, one.source_id)
        if one.beginning is not None:
            parent[one.source_id] = first.setdefault(one.beginning, one.source_id)
        if one.forked_from is not None:
            forks.append((one.source_id, one.forked_from))

    def root(id: int) -> int:
        while parent[id] != id:
            id = parent[id]
        return id

    for id, origin in forks:
        if origin in by_id:
            parent[root(id)] = root(by_id[origin])
    return {id: root(id) for id in parent}


Json: TypeAlias = dict[str, Any]

_COLUMNS = (
    "title", "cwd", "branch", "started", "last", "turns", "messages", "tool_calls", "errors", "context_tokens",
    "images", "compactions", "hidden",
)  # fmt: skip
_LISTS = ("versions", "models", "pull_requests")


def listed(database: sqlite3.Connection, root: Path, ledger: Ledger) -> list[Json]:
    """Return a row for each session. One that has gone is left out where another file has it still."""
    import json

    costs = cost_by_session(ledger)
    agents = agents_by_session(database, root)
    query = f"""SELECT sessions.session_id, path, sources.project, sessions.project, max(size, offset), gone,
        {", ".join(f"sessions.{name}" for name in (*_COLUMNS, *_LISTS))}
        FROM sessions JOIN sources ON sources.id = sessions.source_id WHERE {WITHIN} ORDER BY gone IS NOT NULL, path"""
    rows, there = [], set()
    for id, path, key, project, size, gone, *cells in database.execute(query, within(root)):
        if gone is not None and id in there:
            continue
        there.add(id)
        row = dict(zip((*_COLUMNS, *_LISTS), cells, strict=True))
        for name in _LISTS:
            row[name] = json.loads(row[name])
        row |= {"id": id, "path": path, "project_key": key, "project": project, "bytes": size}
        row |= {"agents": agents.get((id, key), 0), "cost_micros": costs.get(id, 0), "gone": gone is not None}
        rows.append(row)
    return rows


def cost_by_session(ledger: Ledger) -> dict[str | None, int]:
    """Return what each session cost, with its agents. A response that several have is counted where it came from."""
    costs: dict[str | None, int] = {}
    for row in ledger.sums(ledger_Wanted(frozenset({"session"}), days=())):
        costs[row.session] = costs.get(row.session, 0) + row.cost_micros
    return costs


def agents_by_session(database: sqlite3.Connection, root: Path) -> dict[tuple[str, str | None], int]:
    """Return how many agents each session of each project has."""
    query = f"""SELECT agents.session_id, project, count(*) FROM agents JOIN sources ON sources.id = agents.source_id
        WHERE {WITHIN} GROUP BY agents.session_id, project"""
    return {(id, project): count for id, project, count in database.execute(query, within(root))}


PAGE: Final = 200
"""Rows at once, if nothing else is asked for."""

SORTS: Final[Mapping[str, str]] = {
    "title": "title",
    "project": "project",
    "branch": "branch",
    "started": "started",
    "last": "last",
    "active": "active_seconds",
    "turns": "turns",
    "calls": "tool_calls",
    "files": "files",
    "lines": "lines",
    "errors": "errors",
    "context": "peak",
    "cost": "cost_micros",
    "agents": "agents",
    "images": "images",
    "compactions": "compactions",
    "size": "bytes",
}
"""By what rows can be sorted, and what that is called in `Listed`."""
WORDS: Final = frozenset({"title", "project", "branch"})
"""What begins with the first letter of the alphabet; anything else with what is newest or most."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions, in what order, and which of these."""

    filters: Filters = Filters()
    sort: str = "last"
    reverse: bool = False
    """The other way round than usual: `WORDS` from the end of the alphabet, numbers and times from the smallest."""
    offset: int = 0
    limit: int = PAGE


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the list."""

    id: str
    path: str
    title: str
    project: str | None
    project_key: str | None
    cwd: str | None
    branch: str | None
    started: str | None
    last: str | None
    active_seconds: float
    turns: int
    messages: int
    tool_calls: int
    errors: int
    images: int
    compactions: int
    agents: int
    models: tuple[str, ...]
    pull_requests: tuple[str, ...]
    cost_micros: int
    """With its agents."""
    bytes: int
    gone: bool
    """Whether only the archive has it."""
    hidden: str | None
    context_tokens: int | None
    peak_tokens: int | None
    curve: Curve
    files: int | None
    added: int | None
    removed: int | None
    tools: dict[str, int] | None
    folded: tuple[str, ...]
    """The ids of the other sessions of its thread, the one that went on last first."""

    def data(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Catalog(NamedTuple):
    """A part of the list."""

    rows: list[Row]
    total: int
    """How many rows there are in all."""
    sessions: int
    """How many sessions are in these, the folded ones too."""
    hidden: dict[str, int]
    """How many are left out, by reason."""
    facets: dict[str, Any]
    """By what they can be told apart, and how many have it: `has`, `project`, `branch`, `model`, `tool`, `file` and
    `month`."""
    undigested: int
    """How many sessions there are of which files, lines and tools are not known."""

    def data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**self._asdict(), "rows": [row.data() for row in self.rows]}


def catalog(
    database: sqlite3.Connection, root: Path, ledger: Ledger, wanted: Wanted, zone: tzinfo | None = None
) -> Catalog:
    """Return the sessions of a folder that are wanted."""
    every = known(database, root, ledger)
    return part(database, chosen(database, every, wanted.filters, zone), wanted)


class Chosen(NamedTuple):
    """The sessions that pass some filters, whatever their order."""

    threads: list[Thread]
    sessions: int
    hidden: dict[str, int]
    facets: dict[str, Any]
    undigested: int


def chosen(database: sqlite3.Connection, every: Sequence[Listed], filters: Filters, zone: tzinfo | None) -> Chosen:
    """Return the sessions that filters let pass, in threads, and what was counted."""
    facets = Facets(database, filters, every, zone)
    listed = [one for one in every if facets.take(one)]
    return Chosen(
        threads=folded(listed, every, filters.thread),
        sessions=len(listed),
        hidden=dict(sorted((reason, count) for reason, count in facets.hidden.items() if count)),
        facets=facets.data(),
        undigested=sum(one.files is None for one in every),
    )


def part(database: sqlite3.Connection, found: Chosen, wanted: Wanted) -> Catalog:
    """Return some rows of what was chosen, in the order that is wanted."""
    threads = found.threads
    if wanted.sort == "context":
        threads = _with_peaks(database, threads)
    threads = _ordered(threads, wanted)
    rows = _rows(database, threads[wanted.offset : wanted.offset + wanted.limit])
    return Catalog(rows, len(threads), found.sessions, found.hidden, found.facets, found.undigested)


def known(database: sqlite3.Connection, root: Path, ledger: Ledger) -> list[Listed]:
    """Return every session of a folder. The tables are read one by one: that is faster than to have them joined."""
    costs, agents = cost_by_session(ledger), agents_by_session(database, root)
    digests = {row[:2]: row[2:] for row in database.execute(_DIGESTS)}
    tallies = {row[0]: row[1:] for row in database.execute(_TALLIES)}
    rows = database.execute(_SESSIONS, within(root)).fetchall()
    rows.sort(key=_there_first)
    found: list[Listed] = []
    there: set[str] = set()
    for row in rows:
        source, id, _, key, gone = row[:5]
        if gone and id in there:
            continue
        there.add(id)
        digest = digests.get((source, row[-1]))
        about = (*tallies.get(source, _UNKNOWN), *digest) if digest else _UNDIGESTED
        found.append(Listed._make((*row[:-1], *about, agents.get((id, key), 0), costs.get(id, 0))))
    return found


_SESSIONS: Final = f"""SELECT n.source_id, n.session_id, s.path, s.project, s.gone IS NOT NULL, max(s.size, s.offset),
    n.title, n.project, n.cwd, n.branch, n.started, n.last, n.active_seconds, n.turns, n.messages, n.tool_calls,
    n.errors, n.images, n.compactions, n.models, n.pull_requests, n.context_tokens, n.hidden, s.generation
    FROM sessions n CROSS JOIN sources s ON s.id = n.source_id WHERE {WITHIN}"""
_DIGESTS: Final = "SELECT source_id, generation, beginning, forked_from FROM digests WHERE whole"
_TALLIES: Final = "SELECT source_id, files, added, removed, tools, peak FROM tallies"
_UNKNOWN: Final = (None,) * 5
_UNDIGESTED: Final = (None,) * 7
_there_first: Final = itemgetter(4, 2)


def _with_peaks(database: sqlite3.Connection, threads: list[Thread]) -> list[Thread]:
    """Return threads with the peak of each, where it was not added up yet."""
    missing = curves(database, {one.head.source_id: () for one in threads if one.head.files is None})
    peaks = {id: max(found.points, default=None) for id, found in missing.items()}
    return [
        Thread(one.head._replace(peak=peaks[one.head.source_id]), one.others) if one.head.source_id in peaks else one
        for one in threads
    ]


def _ordered(threads: list[Thread], wanted: Wanted) -> list[Thread]:
    """Return threads in the order that is wanted. Sorting keeps what is equal in order, so the last key comes first."""
    name = SORTS.get(wanted.sort, SORTS["last"])
    threads = sorted(threads, key=lambda one: (one.head.id, one.head.path))
    threads.sort(key=lambda one: one.head.last or "", reverse=True)
    column = attrgetter(f"head.{name}")
    certain = [one for one in threads if column(one) is not None]
    by_words = wanted.sort in WORDS
    certain.sort(key=(lambda one: column(one).casefold()) if by_words else column, reverse=by_words == wanted.reverse)
    return [*certain, *(one for one in threads if column(one) is None)]


def _rows(database: sqlite3.Connection, shown: Sequence[Thread]) -> list[Row]:
    heads = [one.head for one in shown]
    added_up = {one.source_id for one in heads if one.files is not None}
    asked = msgspec.json.encode(sorted(added_up)).decode()
    query = "SELECT t.source_id, t.curve FROM json_each(?) asked CROSS JOIN tallies t ON t.source_id = asked.value"
    found = {id: _decode_curve(curve) for id, curve in database.execute(query, (asked,))}
    found |= curves(database, {one.source_id: () for one in heads if one.source_id not in added_up})
    return [_row(one, found[one.head.source_id]) for one in shown]


def _row(thread: Thread, curve: Curve) -> Row:
    one = thread.head
    same = {name: getattr(one, name) for name in _SAME}
    return Row(
        **same,
        gone=bool(one.gone),
        models=one.model_names,
        pull_requests=_decode_names(one.pull_requests),
        peak_tokens=max(curve.points, default=None),
        curve=curve,
        tools=one.tool_counts,
        folded=tuple(other.id for other in thread.others),
    )


_SAME: Final = tuple(name for name in Row.__struct_fields__ if name in Listed._fields and name not in (
    "gone", "models", "pull_requests", "tools"))  # fmt: skip
_decode_curve = msgspec.json.Decoder(Curve).decode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode


class Shelf:
    """The sessions of a folder."""

    def __init__(self, root: Path, folder: Path, settings: Settings) -> None:
        self._root, self._folder, self._settings = root, folder, settings
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._edition = -1
        self._every: list[Listed] = []
        self._chosen: tuple[Filters, tzinfo | None, Chosen] | None = None

    def catalog(self, wanted: Wanted, zone: tzinfo | None) -> Catalog:
        """Return the sessions that are wanted."""
        with self._lock, telling(self._folder):
            database = self._current()
            edition = edition_of(database)
            if edition != self._edition:
                ledger = Opened(self._root, self._folder, self._settings, database).ledger
                self._every, self._chosen, self._edition = known(database, self._root, ledger), None, edition
            if self._chosen is None or self._chosen[:2] != (wanted.filters, zone):
                self._chosen = (wanted.filters, zone, chosen(database, self._every, wanted.filters, zone))
            return part(database, self._chosen[2], wanted)

    def close(self) -> None:
        """Let go of the store."""
        with self._lock:
            self._let_go()

    def _current(self) -> sqlite3.Connection:
        """Return the store, opened anew if it is not the file it was."""
        if self._database is None or self._identity() != self._file:
            self._let_go()
            self._database = open_store(self._folder, any_thread=True)
            self._file = self._identity()
        return self._database

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = (self._folder / STORE).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _let_go(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database, self._file, self._edition, self._every, self._chosen = None, None, -1, [], None
