"""Answers the catalogue of sessions: which sessions in, a page of rows, their number and facets out.

Rules
  1. The order is the same every time: what is equal in the column is ordered by time, then by id and path. What is not
     known comes last, whichever way round.
  2. What nobody knows is None: files, lines and tools while the lines of a session were not looked at
     (`session_stats.sql`).
  3. A session that has gone is left out where another file has it still, as in `session_list.py`.
  4. Sessions that share their beginning are one thread, which is one row: the session that went on last stands for it,
     the others are folded under it. The first lines of their conversations are the same, by uuid and time: resuming and
     forking copy lines with both. A shared response further on is not enough: an excerpt of a session is no fork of it.
  5. A session and the one that it says it was forked from (`forkedFrom`) are one thread too, if both are there.
  6. Files with the same session id are one session: the one that went on last stands for it, and pays for all.
  7. Grouped rows are in the order of their groups, of which the one with the newest activity is first; days by date.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from unspool.format import parse_local_time
from unspool.prices import ONLY_AGENTS, known_cost
from unspool.store import user_annotations
from unspool.store.access import StoreAccess
from unspool.store.catalog.facets import CatalogRow, FacetCounter, FacetValue, SessionFilters
from unspool.store.catalog.session_list import (
    count_agents,
    missing_session_row,
    read_agent_files,
    read_session_costs,
    select_listed,
)
from unspool.store.catalog.session_stats import ContextCurve, read_context_curves
from unspool.store.database import STORE, Roots, open_store, translate_errors
from unspool.store.preferences import Preferences
from unspool.store.sync.changes import data_version
from unspool.store.usage.ledger import Ledger
from unspool.store.user_annotations import SessionAnnotation

PAGE_ROWS: Final = 200
"""Rows of a page by default."""

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
    "context": "peak_tokens",
    "cost": "cost_micros",
    "agents": "agents",
    "images": "images",
    "compactions": "compactions",
    "size": "bytes",
}
"""By what rows can be sorted, and the field of `CatalogRow`."""
TEXT_SORTS: Final = frozenset({"title", "project", "branch"})
"""Columns that begin with the first letter of the alphabet; all others begin with the newest or largest."""


GROUPS: Final = ("project", "branch", "day")
"""By what rows can be grouped."""


class CatalogRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions, in what order, and which page of them."""

    filters: SessionFilters = SessionFilters()
    sort: str = "last"
    reverse: bool = False
    """The other way round than usual: text from the end of the alphabet, numbers and times from the smallest."""
    offset: int = 0
    limit: int = PAGE_ROWS
    group: str | None = None
    """One of `GROUPS`."""


class CatalogGroup(NamedTuple):
    """Rows that are listed together."""

    name: str | None
    """None: not known."""
    rows: int
    """How many rows there are in all."""
    sessions: int
    cost_micros: int
    unpriced_tokens: int


class CatalogPage(NamedTuple):
    """A page of the list."""

    rows: list[CatalogRow]
    total: int
    """How many rows there are in all."""
    sessions: int
    """How many sessions are in these, the folded ones too."""
    hidden: dict[str, int]
    """How many are left out, by reason."""
    facets: dict[str, Any]
    """The values that sessions can be filtered by, and how many have each: `has`, `project`, `branch`, `model`, `tool`,
    `file` and `month`."""
    undigested: int
    """How many sessions there are of which files, lines and tools are not known."""
    cost_micros: int | None = 0
    """What all these sessions cost, the folded ones too; None if no part of it has a price."""
    unpriced_tokens: int = 0
    """Tokens of models without a price."""
    groups: tuple[CatalogGroup, ...] = ()
    """The groups of all rows, in their order, if they are grouped."""
    row_groups: tuple[int, ...] = ()
    """The place in `groups` of each row of the page."""

    def data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        groups = [group._asdict() for group in self.groups]
        return {**self._asdict(), "rows": [row.data() for row in self.rows], "groups": groups}


class SessionThread(NamedTuple):
    """Sessions that share their beginning: the one that went on last, and the others."""

    head: CatalogRow
    others: tuple[CatalogRow, ...]


def fold_threads(
    chosen: Sequence[CatalogRow], every: Iterable[CatalogRow], only: str | None = None
) -> list[SessionThread]:
    """Return the threads of some sessions, given all there are.

    With `only`, the id of a session: its thread alone, each session of it by itself.
    """
    thread_ids = _thread_ids(every)
    if only is not None:
        same = {thread_ids[session.source_id] for session in every if session.id == only}
        return [SessionThread(session, ()) for session in chosen if thread_ids[session.source_id] in same]
    groups: dict[int, list[CatalogRow]] = {}
    for session in chosen:
        groups.setdefault(thread_ids[session.source_id], []).append(session)
    threads = []
    for group in groups.values():
        group.sort(key=lambda session: (session.last or "", session.id, session.path), reverse=True)
        threads.append(SessionThread(group[0], tuple(group[1:])))
    return threads


def _thread_ids(sessions: Iterable[CatalogRow]) -> dict[int, int]:
    """Return for each session the first session of its thread, by their source ids (a union-find)."""
    parent: dict[int, int] = {}
    first: dict[str, int] = {}
    by_id: dict[str, int] = {}
    forks: list[tuple[int, str]] = []
    for session in sessions:
        parent[session.source_id] = session.source_id
        by_id.setdefault(session.id, session.source_id)
        if session.beginning is not None:
            parent[session.source_id] = first.setdefault(session.beginning, session.source_id)
        if session.forked_from is not None:
            forks.append((session.source_id, session.forked_from))

    def root(id: int) -> int:
        while parent[id] != id:
            id = parent[id]
        return id

    for id, origin in forks:
        if origin in by_id:
            parent[root(id)] = root(by_id[origin])
    return {id: root(id) for id in parent}


SelectedSessions: TypeAlias = tuple[list[SessionThread], CatalogPage]
"""The sessions that pass some filters, whatever their order, and what is on every page of them."""


def select_sessions(
    database: sqlite3.Connection, every: Sequence[CatalogRow], filters: SessionFilters, zone: tzinfo | None
) -> SelectedSessions:
    """Return the sessions that filters let pass, in threads, and what was counted."""
    facets = FacetCounter(database, filters, every, zone)
    passing = [session for session in every if facets.take(session)]
    threads = fold_threads(passing, every, filters.thread)
    hidden = dict(sorted((reason, count) for reason, count in facets.hidden.items() if count))
    undigested = sum(session.files is None and session.hidden != ONLY_AGENTS for session in every)
    unpriced = sum(session.unpriced_tokens for session in passing)
    cost = known_cost(_add_costs(passing), unpriced)
    return threads, CatalogPage([], len(threads), len(passing), hidden, facets.data(), undigested, cost, unpriced)


def _add_costs(sessions: Iterable[CatalogRow]) -> int:
    return sum(session.cost_micros or 0 for session in sessions)


def cut_page(
    database: sqlite3.Connection, selected: SelectedSessions, request: CatalogRequest, zone: tzinfo | None
) -> CatalogPage:
    """Return a page of the selected sessions, sorted."""
    threads, page = selected
    threads = order_threads(database, threads, request)
    end = request.offset + request.limit
    if request.group is None:
        return page._replace(rows=_rows(database, threads[request.offset : end]))
    named = _group_threads(threads, request.group, zone)
    groups = tuple(_describe_group(name, members) for name, members in named.items())
    numbered = [(number, thread) for number, members in enumerate(named.values()) for thread in members]
    shown = numbered[request.offset : end]
    return page._replace(
        rows=_rows(database, [thread for _, thread in shown]),
        groups=groups,
        row_groups=tuple(number for number, _ in shown),
    )


def order_threads(
    database: sqlite3.Connection, threads: list[SessionThread], request: CatalogRequest
) -> list[SessionThread]:
    """Return threads in the order of a request, without its groups."""
    return _sort(_with_peaks(database, threads) if request.sort == "context" else threads, request)


def _group_threads(
    threads: Sequence[SessionThread], group: str, zone: tzinfo | None
) -> dict[str | None, list[SessionThread]]:
    """Return the threads of each group, which are in their order (rule 7)."""
    named: dict[str | None, list[SessionThread]] = {}
    for thread in threads:
        named.setdefault(_group_name(thread.head, group, zone), []).append(thread)
    newest = {name: max(thread.head.last or "" for thread in members) for name, members in named.items()}
    # What is not known comes last.
    ordered = sorted(named, key=lambda name: (name is not None, newest[name], name or ""), reverse=True)
    return {name: named[name] for name in ordered}


def _group_name(row: CatalogRow, group: str, zone: tzinfo | None) -> str | None:
    if group != "day":
        return (row.project if group == "project" else row.branch) or None
    last = parse_local_time(row.last, zone) if row.last else None
    return f"{last:%Y-%m-%d}" if last else None


def _describe_group(name: str | None, threads: Sequence[SessionThread]) -> CatalogGroup:
    sessions = [session for thread in threads for session in (thread.head, *thread.others)]
    unpriced = sum(session.unpriced_tokens for session in sessions)
    return CatalogGroup(name, len(threads), len(sessions), _add_costs(sessions), unpriced)


_COLUMNS: Final = """n.title, n.project, s.project, n.cwd, n.branch, n.started, n.last, n.active_seconds, n.turns,
    n.messages, n.tool_calls, n.errors, n.images, n.compactions, n.models, n.pull_requests, max(s.size, s.offset),
    n.hidden, n.context_tokens, n.source_id, s.generation"""
_STATS: Final = "SELECT source_id, generation, beginning, forked_from FROM digests WHERE whole"
_TOTALS: Final = "SELECT source_id, peak, files, added, removed, tools FROM tallies"


def read_sessions(database: sqlite3.Connection, roots: Roots, ledger: Ledger) -> list[CatalogRow]:
    """Return every session of some folders."""
    agent_files, listed = read_agent_files(database, roots), list(select_listed(database, roots, _COLUMNS))
    agents = count_agents(agent_files)
    costs = read_session_costs(ledger, [(path, id) for id, path, *_ in listed], agent_files)
    # The tables are read one by one: that is faster than to have them joined.
    stats = {row[:2]: row[2:] for row in database.execute(_STATS)}
    totals = {row[0]: row[1:] for row in database.execute(_TOTALS)}
    sessions: list[CatalogRow] = []
    for id, path, gone, *row in listed:
        *about, models, pull_requests, size, hidden, context, source, generation = row
        key = about[2]
        known = stats.get((source, generation))
        peak, files, added, removed, tools = totals.get(source, _UNKNOWN) if known else _UNKNOWN
        calls = None if tools is None else _decode_counts(tools)
        values: tuple[Any, ...] = (
            id, path, *about, agents.get((id, key), 0), _decode_names(models), _decode_names(pull_requests),
            *costs.of(path).values(), size, bool(gone), hidden, context, peak, _NO_CURVE, files, added, removed, calls,
            (), 0, (), (), False, (), "", source, *(known or (None, None)),
        )  # fmt: skip
        sessions.append(CatalogRow(*values))  # by name it takes three times as long
    for number, missing in enumerate(costs.missing, 1):
        fields = {**missing_session_row(missing), **costs.of(missing.own_path)}
        # No file has this id: one file may stand for two sessions, and threads are told apart by it.
        sessions.append(_agents_only_row(fields, source_id=-number))
    return _merge_copies(sessions)


def _merge_copies(sessions: list[CatalogRow]) -> list[CatalogRow]:
    """Return sessions with one row for each id (rule 6)."""
    by_id: dict[str, list[CatalogRow]] = {}
    for session in sessions:
        by_id.setdefault(session.id, []).append(session)
    return [own[0] if len(own) == 1 else _merge(own) for own in by_id.values()]


def _merge(copies: list[CatalogRow]) -> CatalogRow:
    copies.sort(key=lambda session: (session.hidden is None, session.last or "", session.path), reverse=True)
    head, *others = copies
    unpriced = sum(session.unpriced_tokens for session in copies)
    projects = dict.fromkeys(other.project for other in others)
    return replace(
        head,
        cost_micros=known_cost(_add_costs(copies), unpriced),
        unpriced_tokens=unpriced,
        agents=sum(session.agents for session in copies),
        copies=tuple(other.path for other in others),
        also_in=tuple(name for name in projects if name and name != head.project),
    )


def annotate_sessions(sessions: Iterable[CatalogRow], annotations: Mapping[str, SessionAnnotation]) -> list[CatalogRow]:
    """Return sessions with the stars, tags and notes that the user gave them."""
    return [
        replace(session, starred=given.starred, tags=given.tags, note=given.note)
        if (given := annotations.get(session.id)) is not None
        else session
        for session in sessions
    ]


def _agents_only_row(fields: dict[str, Any], source_id: int) -> CatalogRow:
    """Return the row of a session that has no file of its own."""
    names = set(CatalogRow.__struct_fields__)
    row = {name: value for name, value in fields.items() if name in names}
    row |= {name: tuple(row[name]) for name in ("models", "pull_requests")}
    row |= dict.fromkeys(("peak_tokens", "files", "added", "removed", "tools", "beginning", "forked_from"))
    row |= {"starred": False, "note": "", **dict.fromkeys(("folded", "copies", "also_in", "tags"), ())}
    return CatalogRow(**row, active_seconds=0.0, curve=_NO_CURVE, folded_cost_micros=0, source_id=source_id)


_UNKNOWN: Final = (None,) * 5
_NO_CURVE: Final = ContextCurve()


def _with_peaks(database: sqlite3.Connection, threads: list[SessionThread]) -> list[SessionThread]:
    """Return threads with the peak of each, where it was not added up yet."""
    missing = [thread.head.source_id for thread in threads if thread.head.files is None]
    curves = read_context_curves(database, dict.fromkeys(missing, ()))
    return [
        thread._replace(head=_with_curve(thread.head, curves[thread.head.source_id]))
        if thread.head.source_id in curves
        else thread
        for thread in threads
    ]


def _with_curve(row: CatalogRow, curve: ContextCurve) -> CatalogRow:
    return replace(row, curve=curve, peak_tokens=max(curve.points, default=None))


def _sort(threads: list[SessionThread], request: CatalogRequest) -> list[SessionThread]:
    # Sorting keeps what is equal in its order, so the last key comes first.
    threads = sorted(threads, key=lambda thread: (thread.head.id, thread.head.path))
    threads.sort(key=lambda thread: thread.head.last or "", reverse=True)
    column = attrgetter(f"head.{SORTS.get(request.sort, SORTS['last'])}")
    known = [thread for thread in threads if column(thread) is not None]
    is_text = request.sort in TEXT_SORTS
    key = (lambda thread: column(thread).casefold()) if is_text else column
    known.sort(key=key, reverse=is_text == request.reverse)
    return [*known, *(thread for thread in threads if column(thread) is None)]


def _rows(database: sqlite3.Connection, threads: Sequence[SessionThread]) -> list[CatalogRow]:
    ids = {thread.head.source_id for thread in threads}
    added_up = {thread.head.source_id for thread in threads if thread.head.files is not None}
    # Of a session that was not added up yet the curve is made from its answers, without compactions.
    query = "SELECT t.source_id, t.curve FROM json_each(?) asked CROSS JOIN tallies t ON t.source_id = asked.value"
    rows = database.execute(query, (msgspec.json.encode(sorted(added_up)).decode(),))
    curves = {id: _decode_curve(curve) for id, curve in rows}
    curves |= read_context_curves(database, dict.fromkeys(ids - added_up, ()))
    return [
        replace(
            _with_curve(head, curves[head.source_id]),
            folded=tuple(other.id for other in others),
            folded_cost_micros=_add_costs(others),
        )
        for head, others in threads
    ]


_decode_curve = msgspec.json.Decoder(ContextCurve).decode
# Cached: most sessions have one of a few lists of models.
_decode_names = lru_cache(1024)(msgspec.json.Decoder(tuple[str, ...]).decode)
_decode_counts = msgspec.json.Decoder(dict[str, int]).decode


class CatalogCache:
    """Keeps the sessions of some folders in memory, for a server.

    They are read again only when another connection has written to the store. Any thread may ask; one is answered at a
    time.
    """

    def __init__(
        self, roots: Roots, folder: Path, preferences: Preferences, *, annotations: Path | None = None
    ) -> None:
        """Take the folder of the store, and that of the annotations if it is another one."""
        self._roots, self._folder, self._preferences = roots, folder, preferences
        self._annotations = annotations or folder
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._version = -1
        self._read_rows: list[CatalogRow] = []
        """The sessions as the store has them."""
        self._sessions: list[CatalogRow] = []
        """The same with stars, tags and notes."""
        self._selected: tuple[SessionFilters, tzinfo | None, SelectedSessions] | None = None
        self._annotated: object = None
        """The stamp of the file of annotations that the sessions have."""

    def catalog(self, request: CatalogRequest, zone: tzinfo | None) -> CatalogPage:
        """Return a page of the sessions."""
        with self._lock, translate_errors(self._folder):
            database = self._read()
            return cut_page(database, self._select(database, request.filters, zone), request, zone)

    def select(self, filters: SessionFilters, zone: tzinfo | None) -> list[CatalogRow]:
        """Return every session that filters let pass, without their curves."""
        with self._lock, translate_errors(self._folder):
            threads, _ = self._select(self._read(), filters, zone)
            return [session for thread in threads for session in (thread.head, *thread.others)]

    def values(self, facet: str, filters: SessionFilters, zone: tzinfo | None) -> list[FacetValue]:
        """Return all values of a facet, with the number of sessions that each would leave."""
        with self._lock, translate_errors(self._folder):
            counter = FacetCounter(self._read(), filters, self._sessions, zone)
            for session in self._sessions:
                counter.take(session)
            return counter.values(facet)[0]

    def neighbours(
        self, id: str, request: CatalogRequest, zone: tzinfo | None
    ) -> tuple[CatalogRow | None, CatalogRow | None]:
        """Return the sessions before and after one in the list of a request; None where it ends or has it not."""
        with self._lock, translate_errors(self._folder):
            database = self._read()
            threads = order_threads(database, self._select(database, request.filters, zone)[0], request)
            if request.group is not None:
                groups = _group_threads(threads, request.group, zone)
                threads = [thread for members in groups.values() for thread in members]
            ids = (
                number
                for number, thread in enumerate(threads)
                if thread.head.id == id or any(other.id == id for other in thread.others)
            )
            place = next(ids, None)
            if place is None:
                return None, None
            before = threads[place - 1].head if place else None
            return before, threads[place + 1].head if place + 1 < len(threads) else None

    def title(self, id: str) -> str | None:
        """Return the title of a session; None if there is no such session."""
        with self._lock, translate_errors(self._folder):
            self._read()
            return next((row.title for row in self._sessions if row.id == id), None)

    def find(self, id: str, path: str) -> CatalogRow | None:
        """Return a session by its id and its file; None if the store does not have it yet."""
        with self._lock, translate_errors(self._folder):
            self._read()
            same = (row for row in self._sessions if row.id == id)
            return next((row for row in same if row.path == path or path in row.copies), None)

    def _select(self, database: sqlite3.Connection, filters: SessionFilters, zone: tzinfo | None) -> SelectedSessions:
        if self._selected is None or self._selected[:2] != (filters, zone):
            self._selected = (filters, zone, select_sessions(database, self._sessions, filters, zone))
        return self._selected[2]

    def _read(self) -> sqlite3.Connection:
        """Read the sessions, if the store has changed; return it."""
        database = self._current_database()
        version, annotated = data_version(database), user_annotations.file_stamp(self._annotations)
        if version != self._version:
            ledger = StoreAccess(self._roots, self._folder, self._preferences, database).ledger
            self._read_rows = read_sessions(database, self._roots, ledger)
        if version != self._version or annotated != self._annotated:
            given = user_annotations.read_annotations(self._annotations).sessions
            self._sessions, self._selected = annotate_sessions(self._read_rows, given), None
            self._version, self._annotated = version, annotated
        return database

    def close(self) -> None:
        """Close the store."""
        with self._lock:
            self._clear()

    def _current_database(self) -> sqlite3.Connection:
        """Return the store, opened anew if it is not the file it was: `unspool sync --rebuild` makes another one."""
        if self._database is None or self._identity() != self._file:
            self._clear()
            self._database = open_store(self._folder, any_thread=True)  # a server answers in any of its threads
            self._file = self._identity()
        return self._database

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = (self._folder / STORE).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _clear(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database, self._file, self._version, self._selected = None, None, -1, None
        self._read_rows, self._sessions = [], []
