"""What sessions can be told apart by: sessions one by one in; which are wanted, and how many have what, out.

Rules
  1. A number says how many sessions there would be with that value instead of the one chosen: a session counts in a
     facet if all the other filters let it pass. What it must have (`has`) narrows: there all filters count.
  2. Hidden sessions count in no facet, unless they are asked for.
  3. A project or model is meant exactly where there is one of that name, else as a part of names. A file is meant by
     a part of its path, or by a pattern if there is a `*` in it.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, tzinfo
from fnmatch import translate
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from unspool.format.timestamps import moment
from unspool.store.usage.ledger import fits_project

HAS: Final = {"error": "errors", "image": "images", "agent": "agents", "compaction": "compactions", "pr": "prs"}
"""What a session may have, and where it says so."""
MOST: Final = 12
"""Values of a facet that are told."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions are wanted."""

    text: str = ""
    """Words that are all in the title."""
    project: str | None = None
    branch: str | None = None
    model: str | None = None
    tool: str | None = None
    file: str | None = None
    has: tuple[str, ...] = ()
    since: datetime | None = None
    """With activity since then."""
    until: datetime | None = None
    """Begun by then."""
    hidden: bool = False
    """Whether hidden ones are wanted too."""
    thread: str | None = None
    """Only the thread of this session, unfolded."""


class Listed(NamedTuple):
    """A session as the store has it."""

    source_id: int
    id: str
    path: str
    project_key: str | None
    gone: int
    bytes: int
    title: str
    project: str | None
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
    models: str
    """JSON."""
    pull_requests: str
    """JSON."""
    context_tokens: int | None
    hidden: str | None
    files: int | None
    added: int | None
    removed: int | None
    tools: str | None
    """JSON."""
    peak: int | None
    beginning: str | None
    forked_from: str | None
    agents: int
    cost_micros: int

    @property
    def lines(self) -> int | None:
        """Lines added and removed."""
        return None if self.added is None or self.removed is None else self.added + self.removed

    @property
    def prs(self) -> bool:
        """Whether it says of pull requests."""
        return self.pull_requests != "[]"

    @property
    def model_names(self) -> tuple[str, ...]:
        """The models, the one used most first."""
        return _names(self.models)

    @property
    def tool_counts(self) -> dict[str, int] | None:
        """How often each tool was called."""
        return None if self.tools is None else _counts(self.tools)


class Value(NamedTuple):
    """A value of a facet, and how many sessions have it."""

    value: str
    sessions: int


class Facets:
    """Filters that are asked about one session after another, and what they met."""

    def __init__(
        self, database: sqlite3.Connection, filters: Filters, every: Sequence[Listed], zone: tzinfo | None
    ) -> None:
        self._database, self._filters, self._zone = database, filters, zone
        self._pass = self._tests(every)
        self._passing: dict[str | None, list[Listed]] = {name: [] for name, _ in self._pass} | {None: []}
        """Sessions that all filters let pass, or all but those of one facet."""
        self.hidden: Counter[str] = Counter()

    def take(self, one: Listed) -> bool:
        """Tell whether a session is wanted, and count it."""
        failed = [name for name, test in self._pass if not test(one)] if self._pass else []
        if one.hidden and not self._filters.hidden:
            self.hidden[one.hidden] += not failed
            return False
        if len(failed) < 2:
            self._passing[failed[0] if failed else None].append(one)
        return not failed

    def data(self) -> dict[str, Any]:
        """Return what was counted, as JSON has it."""
        wanted, zone = self._passing[None], self._zone
        months = Counter(_month(one.last, zone) for one in self._counted("time") if one.last)
        return {
            "has": {name: sum(map(bool, map(attrgetter(column), wanted))) for name, column in HAS.items()},
            "project": _most(Counter(one.project for one in self._counted("project"))),
            "branch": _most(Counter(one.branch for one in self._counted("branch"))),
            "model": _most(_added((_names(models), n) for models, n in self._each("model", "models"))),
            "tool": _most(_added((_counts(tools), n) for tools, n in self._each("tool", "tools") if tools)),
            "file": self.files,
            "month": [Value(*item) for item in sorted(months.items(), reverse=True) if item[0]][:MOST],
        }

    def _counted(self, facet: str) -> list[Listed]:
        """Return the sessions that count in a facet."""
        return self._passing[None] + self._passing.get(facet, [])

    def _each(self, facet: str, column: str) -> Iterable[tuple[Any, int]]:
        """Return what a column holds, and how often: mostly the same again and again."""
        return Counter(map(attrgetter(column), self._counted(facet))).items()

    @cached_property
    def files(self) -> list[Value]:
        """The files that most sessions have changed."""
        counts: dict[int, set[int]] = {}
        owners, wanted = self._owners, {one.source_id for one in self._counted("file")}
        for path, source in self._database.execute("SELECT path_id, source_id FROM changed_files"):
            for session in owners.get(source, ()):
                if session in wanted:
                    counts.setdefault(path, set()).add(session)
        ordered = sorted(((len(sessions), path) for path, sessions in counts.items()), key=lambda one: -one[0])
        query = "SELECT path FROM paths WHERE id = ?"
        named = [(self._database.execute(query, (path,)).fetchone()[0], count) for count, path in ordered[: 4 * MOST]]
        return [Value(*item) for item in sorted(named, key=lambda item: (-item[1], item[0]))[:MOST]]

    @cached_property
    def _owners(self) -> dict[int, list[int]]:
        """The sessions that a file of lines belongs to: its own, and for an agent those that started it."""
        found: dict[int, list[int]] = {}
        for source, session in self._database.execute(_OWNERS):
            found.setdefault(source, []).append(session)
        return found

    def _tests(self, every: Sequence[Listed]) -> list[tuple[str, Test]]:
        """Return the filters that were chosen, by the facet they belong to."""
        filters, words = self._filters, self._filters.text.casefold().split()
        tests: list[tuple[str, Test | None]] = [
            ("text", (lambda one: all(word in one.title.casefold() for word in words)) if words else None),
            ("has", _having(filters.has) if filters.has else None),
            ("project", _of_project(filters.project, every) if filters.project else None),
            ("branch", (lambda one: one.branch == filters.branch) if filters.branch else None),
            ("model", _of_model(filters.model, every) if filters.model else None),
            ("tool", (lambda one: filters.tool in (one.tool_counts or ())) if filters.tool else None),
            ("file", self._of_file(filters.file) if filters.file else None),
            ("time", _in_time(filters.since, filters.until) if filters.since or filters.until else None),
        ]
        return [(name, test) for name, test in tests if test is not None]

    def _of_file(self, wanted: str) -> Test:
        """Return what tells whether a session, or an agent of it, has changed a file."""
        pattern = translate(wanted) if "*" in wanted else re.escape(wanted)
        fits = re.compile(pattern, re.IGNORECASE).search
        paths = {id for id, path in self._database.execute("SELECT id, path FROM paths") if fits(path)}
        query = "SELECT path_id, source_id FROM changed_files"
        sources = {source for path, source in self._database.execute(query) if path in paths}
        sessions = {session for source in sources for session in self._owners.get(source, ())}
        return lambda one: one.source_id in sessions


Test: TypeAlias = Callable[[Listed], bool]


def _having(names: Sequence[str]) -> Test:
    columns = [HAS[name] for name in names]
    return lambda one: all(getattr(one, column) for column in columns)


def _of_project(wanted: str, every: Sequence[Listed]) -> Test:
    if any(one.project == wanted for one in every):
        return lambda one: one.project == wanted
    return lambda one: fits_project(wanted, one.project, one.cwd, one.project_key)


def _of_model(wanted: str, every: Sequence[Listed]) -> Test:
    part = wanted.casefold()
    if any(wanted in one.model_names for one in every):
        return lambda one: wanted in one.model_names
    return lambda one: any(part in model.casefold() for model in one.model_names)


def _in_time(since: datetime | None, until: datetime | None) -> Test:
    def test(one: Listed) -> bool:
        last, begun = moment(one.last), moment(one.started)
        return (since is None or (last is not None and last >= since)) and (
            until is None or (begun is not None and begun <= until)
        )

    return test


def _month(text: str, zone: tzinfo | None) -> str:
    """Return the month that a time is in; only near its ends the zone makes a difference."""
    if len(text) > 10 and text[4] == text[7] == "-" and "02" <= text[8:10] <= "27":
        return text[:7]
    found = moment(text)
    try:
        return f"{found.astimezone(zone):%Y-%m}" if found else ""
    except (ValueError, OverflowError):
        return ""


def _added(counts: Iterable[tuple[Iterable[str], int]]) -> Counter[str | None]:
    found: Counter[str | None] = Counter()
    for names, times in counts:
        for name in names:
            found[name] += times
    return found


def _most(counts: Counter[str | None]) -> list[Value]:
    named = [(name, count) for name, count in counts.items() if name]
    return [Value(*item) for item in sorted(named, key=lambda item: (-item[1], item[0]))[:MOST]]


_names = lru_cache(1024)(msgspec.json.Decoder(tuple[str, ...]).decode)
_counts = msgspec.json.Decoder(dict[str, int]).decode
_OWNERS: Final = """SELECT source_id, source_id FROM sessions
    UNION ALL SELECT a.source_id, n.source_id FROM agents a CROSS JOIN sources f ON f.id = a.source_id
    CROSS JOIN sessions n ON n.session_id = a.session_id CROSS JOIN sources s ON s.id = n.source_id
    WHERE s.project IS f.project AND s.home_id = f.home_id"""
