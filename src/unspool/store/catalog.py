"""The catalogue of sessions: what is wanted in, rows, their number and facets out, all from rows of the store.

Rules
  1. The order is the same every time: what is equal in the column is ordered by time, then by id and path. What is not
     known comes last, whichever way round.
  2. Sessions that share their beginning are one thread: resumed and forked ones stand folded under the one that went on
     last, which is the row (`folding.py`).
  3. What nobody knows is None: files, lines and tools while their lines were not looked at (`digests.sql`).
  4. A session that has gone is left out where another file has it still, as in `listing.py`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from unspool.store.facets import Facets, Filters, Listed
from unspool.store.folding import Thread, folded
from unspool.store.freshness import WITHIN, within
from unspool.store.listing import agents_by_session, cost_by_session
from unspool.store.tallies import Curve, curves

if TYPE_CHECKING:
    from unspool.store.billed import Ledger

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
