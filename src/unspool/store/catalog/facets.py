"""Filters sessions, and counts how many have each value that they can be filtered by.

Rules
  1. A count says how many sessions there would be with that value instead of the one chosen: a session counts in a
     facet if all the other filters let it pass. What it must have (`has`) narrows: there all filters count.
  2. Hidden sessions count in no facet, unless they are asked for.
  3. A project or model is meant exactly where there is one of that name, else as a part of names. A file is meant by
     a part of its path, or by a pattern if there is a `*` in it.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime, tzinfo
from fnmatch import translate
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from unspool.format import parse_local_time, parse_timestamp
from unspool.store.catalog.session_stats import ContextCurve
from unspool.store.usage.ledger import matches_project

HAS: Final = {
    "error": "errors",
    "image": "images",
    "agent": "agents",
    "compaction": "compactions",
    "pr": "pull_requests",
}
"""What a session may have, and the field that says so."""
FACETS: Final = ("project", "branch", "model", "tool", "file", "month", "tag")
"""What sessions can be filtered by, each with a list of values."""
MAX_VALUES: Final = 100
"""Values of a facet that come with a page of the list; `FacetCounter.values` has all."""


class SessionFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list."""

    text: str = ""
    """Words that the title, the note or a tag must contain, all of them."""
    project: tuple[str, ...] = ()
    """Any of these; so with all that have several values."""
    branch: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    file: tuple[str, ...] = ()
    month: tuple[str, ...] = ()
    """Of the last activity: `2026-10`."""
    tag: tuple[str, ...] = ()
    starred: bool = False
    """Only those that the user starred."""
    has: tuple[str, ...] = ()
    since: datetime | None = None
    """With activity since then."""
    until: datetime | None = None
    """Begun by then."""
    hidden: bool = False
    """Whether to list hidden ones too."""
    thread: str | None = None
    """Only the thread of this session, unfolded."""


class CatalogRow(msgspec.Struct, frozen=True):
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
    """The one that was used most first."""
    pull_requests: tuple[str, ...]
    cost_micros: int | None
    """Of the responses that it pays for, with its agents; None if no part of it has a price."""
    unpriced_tokens: int
    """Tokens of models without a price."""
    bytes: int
    gone: bool
    """Whether only the archive has it."""
    hidden: str | None
    context_tokens: int | None
    peak_tokens: int | None
    curve: ContextCurve
    """Empty until it is shown."""
    files: int | None
    added: int | None
    removed: int | None
    tools: dict[str, int] | None
    """How often each was called."""
    folded: tuple[str, ...]
    """The ids of the other sessions of its thread, the one that went on last first."""
    folded_cost_micros: int
    """What these cost, as far as prices are known."""
    copies: tuple[str, ...]
    """The other files that have the same session id; their cost is in this row."""
    also_in: tuple[str, ...]
    """The projects of these files, if they are others than its own."""
    starred: bool
    tags: tuple[str, ...]
    note: str
    source_id: int
    beginning: str | None
    """Of its thread: `session_stats.sql`."""
    forked_from: str | None

    @property
    def lines(self) -> int | None:
        """Lines added and removed."""
        return None if self.added is None or self.removed is None else self.added + self.removed

    def data(self) -> dict[str, Any]:
        """Return the session as JSON has it: without what only folding needs."""
        whole: dict[str, Any] = msgspec.to_builtins(self)
        return {name: whole[name] for name in self.__struct_fields__[: -len(_FOLDING)]}


_FOLDING: Final = ("source_id", "beginning", "forked_from")


class FacetValue(NamedTuple):
    """A value of a facet, and how many sessions have it."""

    value: str
    sessions: int


class FacetCounter:
    """Applies filters to one session after another, and counts the values of those that pass."""

    def __init__(
        self, database: sqlite3.Connection, filters: SessionFilters, every: Sequence[CatalogRow], zone: tzinfo | None
    ) -> None:
        self._database, self._filters, self._zone = database, filters, zone
        self._tests = self._make_tests(every)
        self._passing: dict[str | None, list[CatalogRow]] = {name: [] for name, _ in self._tests} | {None: []}
        """Sessions that all filters let pass (None), or all but those of one facet."""
        self.hidden: Counter[str] = Counter()

    def take(self, session: CatalogRow) -> bool:
        """Tell whether a session passes, and count it."""
        failed = [name for name, test in self._tests if not test(session)]
        if session.hidden and not self._filters.hidden:
            self.hidden[session.hidden] += not failed
            return False
        if len(failed) < 2:  # with one filter failed, it counts in that facet and in no other (rule 1)
            self._passing[failed[0] if failed else None].append(session)
        return not failed

    def data(self) -> dict[str, Any]:
        """Return what was counted, as JSON has it."""
        passing = self._passing[None]
        values = {name: self.values(name, MAX_VALUES) for name in FACETS}
        return {
            "has": {name: sum(map(bool, map(attrgetter(column), passing))) for name, column in HAS.items()},
            "starred": sum(session.starred for session in passing),
            **{name: found for name, (found, _) in values.items()},
            "totals": {name: total for name, (_, total) in values.items()},
        }

    def values(self, facet: str, most: int | None = None) -> tuple[list[FacetValue], int]:
        """Return the values of a facet with their counts, the most frequent first, and how many values there are."""
        counted = self._counted(facet)
        match facet:
            case "file":
                return self._files(most)
            case "month":
                months = Counter(_month(session.last, self._zone) for session in counted if session.last)
                found = [FacetValue(*item) for item in sorted(months.items(), reverse=True) if item[0]]
            case "project":
                found = _most_common(
                    Counter(name for session in counted for name in (session.project, *session.also_in))
                )
            case "branch":
                found = _most_common(Counter(session.branch for session in counted))
            case "tag":
                found = _most_common(Counter(tag for session in counted for tag in session.tags))
            case "model":
                found = _most_common(Counter(name for session in counted for name in session.models))
            case _:
                found = _most_common(Counter(name for session in counted for name in session.tools or ()))
        return found[:most], len(found)

    def _counted(self, facet: str) -> list[CatalogRow]:
        """Return the sessions that count in a facet."""
        return self._passing[None] + self._passing.get(facet, [])

    def _files(self, most: int | None) -> tuple[list[FacetValue], int]:
        """Return the files that most sessions have changed, and how many files there are."""
        counts: dict[int, set[int]] = {}
        owners, counted = self._owners, {session.source_id for session in self._counted("file")}
        for path, source in self._database.execute("SELECT path_id, source_id FROM changed_files"):
            for session in owners.get(source, ()):
                if session in counted:
                    counts.setdefault(path, set()).add(session)
        ordered = sorted(counts, key=lambda path: -len(counts[path]))
        # More than are listed, because those with the same count are then ordered by name.
        wanted = ordered if most is None else ordered[: 4 * most]
        query = "SELECT p.id, p.path FROM json_each(?) asked CROSS JOIN paths p ON p.id = asked.value"
        rows = self._database.execute(query, (str(wanted),))
        return _most_common({path: len(counts[id]) for id, path in rows})[:most], len(counts)

    @cached_property
    def _owners(self) -> dict[int, list[int]]:
        """The sessions that a file of lines belongs to: its own, and for an agent those that started it."""
        owners: dict[int, list[int]] = {}
        for source, session in self._database.execute(_OWNERS):
            owners.setdefault(source, []).append(session)
        return owners

    def _make_tests(self, every: Sequence[CatalogRow]) -> list[tuple[str, Test]]:
        """Return a test for each filter that was chosen, by the facet it belongs to."""
        filters, words = self._filters, self._filters.text.casefold().split()
        tests: list[tuple[str, Test | None]] = [
            ("text", (lambda session: _matches_words(session, words)) if words else None),
            ("has", _has_all(filters.has) if filters.has else None),
            ("project", _any_of([_is_in_project(name, every) for name in filters.project])),
            ("branch", (lambda session: session.branch in filters.branch) if filters.branch else None),
            ("model", _any_of([_uses_model(name, every) for name in filters.model])),
            ("tool", (lambda session: _share_any(filters.tool, session.tools or ())) if filters.tool else None),
            ("file", _any_of([self._has_changed(file) for file in filters.file])),
            ("month", self._is_in_month if filters.month else None),
            ("tag", (lambda session: _share_any(filters.tag, session.tags)) if filters.tag else None),
            ("starred", (lambda session: session.starred) if filters.starred else None),
            ("time", _is_in_time(filters.since, filters.until) if filters.since or filters.until else None),
        ]
        return [(name, test) for name, test in tests if test is not None]

    def _is_in_month(self, session: CatalogRow) -> bool:
        return session.last is not None and _month(session.last, self._zone) in self._filters.month

    def _has_changed(self, file: str) -> Test:
        """Return a test of whether a session, or an agent of it, has changed a file."""
        pattern = translate(file) if "*" in file else re.escape(file)
        matches = re.compile(pattern, re.IGNORECASE).search
        paths = {id for id, path in self._database.execute("SELECT id, path FROM paths") if matches(path)}
        query = "SELECT path_id, source_id FROM changed_files"
        sources = {source for path, source in self._database.execute(query) if path in paths}
        sessions = {session for source in sources for session in self._owners.get(source, ())}
        return lambda session: session.source_id in sessions


Test: TypeAlias = Callable[[CatalogRow], bool]


def _any_of(tests: Sequence[Test]) -> Test | None:
    """Return a test that passes if one of some tests does; None if there are none."""
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda session: any(test(session) for test in tests)


def _share_any(wanted: Sequence[str], values: Container[str]) -> bool:
    return any(value in values for value in wanted)


def _has_all(names: Sequence[str]) -> Test:
    columns = [HAS[name] for name in names]
    return lambda session: all(getattr(session, column) for column in columns)


def _is_in_project(project: str, every: Sequence[CatalogRow]) -> Test:
    if any(session.project == project for session in every):
        return lambda session: session.project == project or project in session.also_in
    return lambda session: matches_project(project, session.project, session.cwd, session.project_key, *session.also_in)


def _uses_model(model: str, every: Sequence[CatalogRow]) -> Test:
    part = model.casefold()
    if any(model in session.models for session in every):
        return lambda session: model in session.models
    return lambda session: any(part in name.casefold() for name in session.models)


def _is_in_time(since: datetime | None, until: datetime | None) -> Test:
    def test(session: CatalogRow) -> bool:
        last, begun = parse_timestamp(session.last), parse_timestamp(session.started)
        return (since is None or (last is not None and last >= since)) and (
            until is None or (begun is not None and begun <= until)
        )

    return test


def _matches_words(session: CatalogRow, words: Sequence[str]) -> bool:
    """Tell whether all words are in the title, the note or the tags, or begin the id."""
    text = session.title.casefold()
    if session.note or session.tags:
        text = "\n".join((text, session.note.casefold(), *map(str.casefold, session.tags)))
    return all(word in text or session.id.startswith(word) for word in words)


def _month(text: str, zone: tzinfo | None) -> str:
    """Return the month that a time is in."""
    # Only near the ends of a month the zone makes a difference: no other time has to be parsed.
    if len(text) > 10 and text[4] == text[7] == "-" and "02" <= text[8:10] <= "27":
        return text[:7]
    time = parse_local_time(text, zone)
    return f"{time:%Y-%m}" if time else ""


def _most_common(counts: Mapping[str | None, int] | Mapping[str, int]) -> list[FacetValue]:
    named = [(name, count) for name, count in counts.items() if name]
    return [FacetValue(*item) for item in sorted(named, key=lambda item: (-item[1], item[0]))]


_OWNERS: Final = """SELECT source_id, source_id FROM sessions
    UNION ALL SELECT a.source_id, n.source_id FROM agents a CROSS JOIN sources f ON f.id = a.source_id
    CROSS JOIN sessions n ON n.session_id = a.session_id CROSS JOIN sources s ON s.id = n.source_id
    WHERE s.project IS f.project AND s.home_id = f.home_id"""
"""`CROSS JOIN` fixes the order of the tables; `IS` also compares projects that are not known."""
