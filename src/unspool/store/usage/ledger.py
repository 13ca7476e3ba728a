"""Adds up billed responses for the usage reports, in SQLite.

`Ledger` is what a report needs. `StoreLedger` answers from the store and `FileLedger` (`ledger_files.py`) straight from
the files; the reports do not know which.

Rules
  1. A report covers the folders it was asked for. Where that is a home, the marks in `answers` say what counts, and so
     they do in several homes of which no two have the same response. In homes that share responses what counts is
     found anew among the rows of all copies; in a part of a home, and around several, among the lines of the files.
  2. What was added up is remembered without the files in `unsummed`, whose answers are added up anew: a session that
     goes on changes nothing else. The writer forgets it when another file joins them.
  3. Nothing heavy is imported: a report of a store that is up to date needs no more than this.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from unspool.format import DAY, DAYS_FROM, DAYS_TO, QUARTER, milliseconds
from unspool.prices import Bill
from unspool.store.database import IN_FOLDER, Roots, folder_parameters, list_roots, snapshot, transaction
from unspool.store.sync.changes import read_homes

if TYPE_CHECKING:
    from unspool.prices import Price, Response

KEY_COLUMNS = {"session": "session_id", "agent": "agent_id", "project": "project", "branch": "branch"}
"""What rows may be grouped by, and the name of that field and column."""
FILE = "file"
"""What rows may be grouped by too: the file with the copy that counts."""


class UsageQuery(NamedTuple):
    """Which responses are added up, and what they are grouped by."""

    keys: frozenset[str] = frozenset()
    """Of `session`, `agent`, `project`, `branch`, `file`: what rows must not be added up across. Models and times never
    are."""
    since: int | None = None
    """Milliseconds since 1970, included."""
    until: int | None = None
    """Not included."""
    project: str | None = None
    """A project's name, a part of its path, or its key."""
    exact: bool = False
    """Each response by itself, with its exact time; else those of a quarter of an hour may come as one."""
    days: tuple[tuple[int, int], ...] | None = None
    """Those of a day may come as one, too: until when a zone is how far ahead of UTC, both in milliseconds. Empty: time
    plays no part."""


class UsageSum(NamedTuple):
    """Responses that are alike, added up: what they share, and their bill.

    What they are not grouped by (`UsageQuery.keys`) may be None.
    """

    time: int | None
    """Milliseconds since 1970, of the earliest line; of several responses any moment of their quarter of an hour."""
    session: str | None
    """The session that pays (`prices/bill.py`)."""
    agent: str | None
    project: str | None
    branch: str | None
    model: str | None
    file: str | None
    """The path of the file with the copy that counts."""
    bill: Bill


class CountedRequest(NamedTuple):
    """A response that counts, by itself: the file with the copy that counts, the session that pays, and the project."""

    file: str
    session: str
    project: str | None
    response: Response


FileCost: TypeAlias = tuple[str | None, str | None, int, int]
"""What a session pays for a file: the path, the session, micro-dollars, and tokens without a price."""


FILE_COSTS = UsageQuery(frozenset({"session", FILE}), days=())
"""The query whose sums have what each file cost."""


class LimitNotice(NamedTuple):
    """A notice of Claude Code that a usage limit was reached."""

    time: int | None
    notice: str


UsageExplanation: TypeAlias = dict[str, list[dict[str, Any]]]
"""Every line that could have been billed, as JSON has it: those that were `counted`, `merged` and `dropped`."""


class Ledger(Protocol):
    """What was billed in a folder."""

    def sums(self, query: UsageQuery) -> list[UsageSum]:
        """Return the responses of a query, added up as far as that is allowed."""

    def file_costs(self) -> list[FileCost]:
        """Return what each file cost, by the session that pays; a file may have several rows for one session."""

    def requests(self, query: UsageQuery, session: str | None = None) -> Iterator[CountedRequest]:
        """Yield the responses of a query one by one, or only those that a session pays for; keys play no part."""

    def explain(self, query: UsageQuery) -> UsageExplanation:
        """Return which lines were counted, merged and dropped, and why."""

    def limits(self) -> list[LimitNotice]:
        """Return when limits were reached."""


def matches_project(text: str | None, *names: str | None) -> bool:
    """Tell whether one of a project's names, its path or its key contains a text; every project matches None."""
    return text is None or any(text.casefold().rstrip("/") in (name or "").casefold() for name in names)


_MAX_UNSUMMED = 8
"""Files whose answers are added up anew each time, so that what was added up of all others holds while they grow."""
_SUMS = ("count(*)", "count(*) - sum(final)", *(f"sum({name})" for name in Bill._fields[2:]))
"""What makes a bill of rows of `answers`."""
_BILL = UsageSum._fields.index("bill")
"""Where the columns of a bill begin in a row."""
_ADD_UP = f"""INSERT INTO spent
    SELECT source_id, home_id, min(time), {", ".join(KEY_COLUMNS.values())}, model, {", ".join(_SUMS)} FROM answers
    WHERE counted = 1 AND source_id IN unsummed
    GROUP BY source_id, time / {QUARTER}, {", ".join(KEY_COLUMNS.values())}, model"""


_OF_SESSION = """ AND a.session_id = ? AND a.source_id IN (
    SELECT id FROM sources WHERE session_id = ? OR instr(path, '/' || ? || '.jsonl')
    UNION SELECT source_id FROM agents WHERE session_id = ?)"""
"""What a session pays for, with the files that it can be in: no index leads from a session to its answers."""


class StoreLedger:
    """What was billed in some folders, as the store knows it."""

    def __init__(
        self,
        database: sqlite3.Connection,
        roots: Roots,
        open_files: Callable[[], Ledger],
        overrides: Sequence[Price] = (),
    ) -> None:
        self._database, self._roots, self._overrides = database, list_roots(roots), overrides
        self._open_files = open_files
        """Returns a ledger of the lines themselves, for what the store does not keep."""

    def sums(self, query: UsageQuery) -> list[UsageSum]:
        """Return the responses of a query, added up as far as that is allowed."""
        homes = self._home_ids()
        if not homes:
            return self._open_files().sums(query)
        if len(homes) > 1 and self._share_responses(homes):
            from unspool.store.usage.ledger_files import RowLedger  # rule 3

            return RowLedger(self._database, homes, self._overrides).sums(query)
        return [summed for home in homes for summed in self._home_sums(home, query)]

    def file_costs(self) -> list[FileCost]:
        """Return what each file cost, by the session that pays.

        A list of sessions asks for this. Of 8,000 files `sums` takes four times as long: its rows have all of a bill.
        """
        homes = self._home_ids()
        if not homes:
            return self._open_files().file_costs()
        if len(homes) > 1 and self._share_responses(homes):
            return costs_of_sums(self.sums(FILE_COSTS))
        paths = self._read_paths()
        return [
            (paths.get(source), session, cost, unpriced)
            for home in homes
            for source, session, cost, unpriced in self._home_file_costs(home)
        ]

    def _home_file_costs(self, home: int) -> Sequence[Sequence[Any]]:
        columns, groups = "source_id, session_id, sum(cost_micros), sum(unpriced_tokens)", "source_id, session_id"
        settled = f"""SELECT {columns} FROM spent WHERE home_id = {home} AND source_id NOT IN unsummed
            GROUP BY {groups}"""
        counted = f"SELECT {columns} FROM answers WHERE counted = 1 AND"
        rows = self._remembered_rows(settled, f"{counted} {_growing_condition(home)} GROUP BY {groups}")
        return (
            self._database.execute(f"{counted} home_id = {home} GROUP BY {groups}").fetchall() if rows is None else rows
        )

    def _home_sums(self, home: int, query: UsageQuery) -> list[UsageSum]:
        keys = [column if key in query.keys else "NULL" for key, column in KEY_COLUMNS.items()]
        is_everything = query._replace(keys=frozenset(), days=None) == UsageQuery()
        if is_everything and (rows := self._remembered_rows(*_sum_statements(query, home, keys))) is not None:
            sums = _make_sums(rows)
            return self._with_paths(sums) if FILE in query.keys else sums
        where, values = _time_condition(home, query)
        in_project, names = self._project_condition(home, query.project)
        file = "source_id" if FILE in query.keys else "NULL"
        groups = ["time", *keys, "model", "id"] if query.exact else [f"time / {QUARTER}", *keys, "model", file]
        statement = f"""SELECT min(time), {", ".join(keys)}, model, {file}, {", ".join(_SUMS)} FROM answers
            AS a WHERE {where}{in_project} GROUP BY {", ".join(groups)}"""
        sums = _make_sums(self._database.execute(statement, [*values, *names]))
        return self._with_paths(sums) if FILE in query.keys else sums

    def requests(self, query: UsageQuery, session: str | None = None) -> Iterator[CountedRequest]:
        """Yield the responses of a query one by one, or only those that a session pays for."""
        homes = self._home_ids()
        if not homes:
            yield from self._open_files().requests(query, session)
        elif len(homes) > 1 and self._share_responses(homes):
            from unspool.store.usage.ledger_files import RowLedger  # rule 3

            yield from RowLedger(self._database, homes, self._overrides).requests(query, session)
        else:
            for home in homes:
                yield from self._home_requests(home, query, session)

    def _home_requests(self, home: int, query: UsageQuery, session: str | None) -> Iterator[CountedRequest]:
        from unspool.store.answer_rows import ANSWER_COLUMNS, ANSWER_SELECT, response_from_row  # rule 3

        where, values = _time_condition(home, query)
        in_project, names = self._project_condition(home, query.project)
        of_session, ids = (_OF_SESSION, [session] * 4) if session is not None else ("", [])
        statement = f"""SELECT {ANSWER_SELECT}, s.path FROM answers a JOIN sources s ON s.id = a.source_id
            WHERE {where}{in_project}{of_session}"""
        project, payer = ANSWER_COLUMNS.index("project"), ANSWER_COLUMNS.index("session_id")
        for row in self._database.execute(statement, [*values, *names, *ids]):
            yield CountedRequest(row[-1], row[payer] or "", row[project], response_from_row(row))

    def _with_paths(self, sums: list[UsageSum]) -> list[UsageSum]:
        """Return sums with the path of each file in place of its id."""
        paths = self._read_paths()
        return [usage._replace(file=paths.get(usage.file)) for usage in sums]

    def _read_paths(self) -> dict[object, str]:
        """Return the path of each file, by its id."""
        return dict(self._database.execute("SELECT id, path FROM sources").fetchall())

    def limits(self) -> list[LimitNotice]:
        """Return when limits were reached."""
        query = f"""SELECT DISTINCT time, notice FROM limits JOIN sources ON sources.id = limits.source_id
            WHERE {IN_FOLDER} ORDER BY time"""
        return [LimitNotice(*row) for row in self._database.execute(query, folder_parameters(self._roots))]

    def explain(self, query: UsageQuery) -> UsageExplanation:
        """Return which lines were counted, merged and dropped, and why: the lines are read for it."""
        return self._open_files().explain(query)

    def _remembered_rows(self, settled: str, growing: str) -> list[Sequence[Any]] | None:
        """Return what two statements give, the first run once while that holds; None if it cannot be kept."""
        import json

        with snapshot(self._database):
            known = self._database.execute("SELECT answer FROM remembered WHERE question = ?", (settled,)).fetchone()
            if known is not None:
                return [*json.loads(known[0]), *self._database.execute(growing)]
        try:
            with transaction(self._database):
                self._add_up()
                rows = self._database.execute(settled).fetchall()
                self._database.execute("INSERT OR REPLACE INTO remembered VALUES (?, ?)", (settled, json.dumps(rows)))
                return [*rows, *self._database.execute(growing)]
        except sqlite3.OperationalError:  # the store cannot be written: the answers themselves will do
            return None

    def _add_up(self) -> None:
        """Bring `spent` up to date, unless all that is missing is a few files: those may be growing still."""
        if self._database.execute("SELECT count(*) FROM unsummed").fetchone()[0] > _MAX_UNSUMMED:
            self._database.execute("DELETE FROM spent WHERE source_id IN unsummed")
            self._database.execute(_ADD_UP)
            self._database.execute("DELETE FROM unsummed")
            self._database.execute("DELETE FROM remembered")

    def _home_ids(self) -> list[int]:
        """Return the homes that the folders are; none if one is a part of a home, or has others inside."""
        homes = read_homes(self._database)
        ids = {row.path: row.id for row in homes}
        found = [ids.get(str(root)) for root in self._roots]
        inside = tuple(folder_parameters(root)["first"] for root in self._roots)
        if any(row.path.startswith(inside) for row in homes):
            return []
        return [id for id in found if id is not None] if None not in found else []

    def _share_responses(self, homes: Sequence[int]) -> bool:
        """Tell whether a response is in more than one of some homes, each of which counts it."""
        chosen = ", ".join(map(str, homes))
        query = f"SELECT 1 FROM answers WHERE counted = 1 AND home_id IN ({chosen}) GROUP BY id HAVING count(*) > 1"
        return self._database.execute(f"{query} LIMIT 1").fetchone() is not None

    def _project_condition(self, home: int, project: str | None) -> tuple[str, Sequence[Any]]:
        """Return what restricts a statement to a project, and its values."""
        if project is None:
            return "", ()
        query = """SELECT DISTINCT a.project, a.cwd, s.project, a.source_id FROM answers a
            JOIN sources s ON s.id = a.source_id WHERE a.home_id = ? AND a.counted = 1"""
        matching = {
            (cwd, source)
            for name, cwd, key, source in self._database.execute(query, (home,))
            if matches_project(project, name, cwd, key)
        }
        if not matching:
            return " AND 0", ()
        pairs = ", ".join(["(?, ?)"] * len(matching))
        values = [value for cwd, source in matching for value in (cwd or "", source)]
        return f" AND (coalesce(cwd, ''), source_id) IN (VALUES {pairs})", values


def _time_condition(home: int, query: UsageQuery) -> tuple[str, list[int]]:
    """Return what restricts a statement to what counts in a home and a range of time, and its values."""
    where, values = "counted = 1 AND a.home_id = ?", [home]
    if query.since is not None:
        where, values = where + " AND time >= ?", [*values, query.since]
    if query.until is not None:
        where, values = where + " AND time < ?", [*values, query.until]
    return where, values


def costs_of_sums(sums: Iterable[UsageSum]) -> list[FileCost]:
    """Return what each file cost, given the sums of `FILE_COSTS`."""
    return [(one.file, one.session, one.bill.cost_micros, one.bill.unpriced_tokens) for one in sums]


def _make_sums(rows: Iterable[Sequence[Any]]) -> list[UsageSum]:
    return [UsageSum._make((*row[:_BILL], Bill._make(row[_BILL:]))) for row in rows]


def _sum_statements(query: UsageQuery, home: int, keys: Sequence[str]) -> tuple[str, str]:
    """Return what selects the sums of a home: of the files that have settled, and of those that grow."""
    file = "source_id" if FILE in query.keys else "NULL"
    groups = ", ".join([*_time_groups(query), *(key for key in (*keys, file) if key != "NULL"), "model"])
    columns = f"min(time), {', '.join(keys)}, model, {file}"
    settled = f"""SELECT {columns}, {", ".join(f"sum({name})" for name in Bill._fields)} FROM spent
        WHERE home_id = {home} AND source_id NOT IN unsummed GROUP BY {groups}"""
    growing = f"""SELECT {columns}, {", ".join(_SUMS)} FROM answers
        WHERE counted = 1 AND {_growing_condition(home)} GROUP BY {groups}"""
    return settled, growing


def _growing_condition(home: int) -> str:
    """Return what restricts a statement to the files of a home that are still added up anew."""
    # The plus keeps SQLite from the index of homes, by which it visits every answer: 40 ms of CPU at 1 GB, for no row.
    return f"+home_id = {home} AND source_id IN unsummed"


def _time_groups(query: UsageQuery) -> list[str]:
    """Return the expression that times are grouped by: quarters of an hour, days of a zone, or nothing."""
    if query.days is None:
        return [f"time / {QUARTER}"]
    if not query.days:
        return []
    *before, (_, last) = query.days
    cases = " ".join(f"WHEN time < {until} THEN {ahead}" for until, ahead in before)
    ahead = f"CASE {cases} ELSE {last} END" if before else str(last)
    known = f"time >= {milliseconds(f'{DAYS_FROM}-01-02')} AND time < {milliseconds(f'{DAYS_TO}-01-01')}"
    # Outside the years whose days are known, quarters of an hour: negative, so that none is taken for a day.
    return [f"CASE WHEN {known} THEN (time + {ahead}) / {DAY} ELSE -1 - time / {QUARTER} END"]
