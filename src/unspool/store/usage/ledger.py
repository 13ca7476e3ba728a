"""Adds up billed responses for the usage reports, in SQLite.

`Ledger` is what a report needs. `StoreLedger` answers from the store and `FileLedger` (`ledger_files.py`) straight from
the files; the reports do not know which.

Rules
  1. A report covers the folder it was asked for. Where that is a home, the marks in `answers` say what counts; in a
     part of a home, or around several, what counts is found anew among the files that are there.
  2. What was added up is remembered without the files in `unsummed`, whose answers are added up anew: a session that
     goes on changes nothing else. The writer forgets it when another file joins them.
  3. Nothing heavy is imported: a report of a store that is up to date needs no more than this.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from unspool.prices import Bill
from unspool.store.database import IN_FOLDER, folder_parameters, snapshot, transaction
from unspool.store.sync.changes import read_homes
from unspool.store.times import DAY, DAYS_FROM, DAYS_TO, QUARTER, milliseconds

KEY_COLUMNS = {"session": "session_id", "agent": "agent_id", "project": "project", "branch": "branch"}
"""What rows may be grouped by, and the name of that field and column."""


class UsageQuery(NamedTuple):
    """Which responses are added up, and what they are grouped by."""

    keys: frozenset[str] = frozenset()
    """Of `session`, `agent`, `project`, `branch`: what rows must not be added up across. Models and times never are."""
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
    agent: str | None
    project: str | None
    branch: str | None
    model: str | None
    bill: Bill


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


class StoreLedger:
    """What was billed in a folder, as the store knows it."""

    def __init__(self, database: sqlite3.Connection, root: Path, open_files: Callable[[], Ledger]) -> None:
        self._database, self._root = database, root
        self._open_files = open_files
        """Returns a ledger of the lines themselves, for what the store does not keep."""

    def sums(self, query: UsageQuery) -> list[UsageSum]:
        """Return the responses of a query, added up as far as that is allowed."""
        home = self._home_id()
        if home is None:
            return self._open_files().sums(query)
        keys = [column if key in query.keys else "NULL" for key, column in KEY_COLUMNS.items()]
        is_everything = query._replace(keys=frozenset(), days=None) == UsageQuery()
        if is_everything and (sums := self._remembered_sums(*_sum_statements(query, home, keys))) is not None:
            return sums
        where, values = "counted = 1 AND home_id = ?", [home]
        if query.since is not None:
            where, values = where + " AND time >= ?", [*values, query.since]
        if query.until is not None:
            where, values = where + " AND time < ?", [*values, query.until]
        in_project, names = self._project_condition(home, query.project)
        groups = ["time", *keys, "model", "id"] if query.exact else [f"time / {QUARTER}", *keys, "model"]
        statement = f"""SELECT min(time), {", ".join(keys)}, model, {", ".join(_SUMS)} FROM answers
            WHERE {where}{in_project} GROUP BY {", ".join(groups)}"""
        return _make_sums(self._database.execute(statement, [*values, *names]))

    def limits(self) -> list[LimitNotice]:
        """Return when limits were reached."""
        query = f"""SELECT DISTINCT time, notice FROM limits JOIN sources ON sources.id = limits.source_id
            WHERE {IN_FOLDER} ORDER BY time"""
        return [LimitNotice(*row) for row in self._database.execute(query, folder_parameters(self._root))]

    def explain(self, query: UsageQuery) -> UsageExplanation:
        """Return which lines were counted, merged and dropped, and why: the lines are read for it."""
        return self._open_files().explain(query)

    def _remembered_sums(self, settled: str, growing: str) -> list[UsageSum] | None:
        """Return what two statements give, the first run once while that holds; None if it cannot be kept."""
        import json

        with snapshot(self._database):
            known = self._database.execute("SELECT answer FROM remembered WHERE question = ?", (settled,)).fetchone()
            if known is not None:
                return _make_sums([*json.loads(known[0]), *self._database.execute(growing)])
        try:
            with transaction(self._database):
                self._add_up()
                rows = self._database.execute(settled).fetchall()
                self._database.execute("INSERT OR REPLACE INTO remembered VALUES (?, ?)", (settled, json.dumps(rows)))
                return _make_sums([*rows, *self._database.execute(growing)])
        except sqlite3.OperationalError:  # the store cannot be written: the answers themselves will do
            return None

    def _add_up(self) -> None:
        """Bring `spent` up to date, unless all that is missing is a few files: those may be growing still."""
        if self._database.execute("SELECT count(*) FROM unsummed").fetchone()[0] > _MAX_UNSUMMED:
            self._database.execute("DELETE FROM spent WHERE source_id IN unsummed")
            self._database.execute(_ADD_UP)
            self._database.execute("DELETE FROM unsummed")
            self._database.execute("DELETE FROM remembered")

    def _home_id(self) -> int | None:
        """Return the home that the folder is; None if it is a part of one, or others are inside."""
        root, inside = str(self._root), folder_parameters(self._root)["first"]
        homes = read_homes(self._database)
        if any(row.path.startswith(inside) for row in homes):
            return None
        return next((row.id for row in homes if row.path == root), None)

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


def _make_sums(rows: Iterable[Sequence[Any]]) -> list[UsageSum]:
    return [UsageSum._make((*row[:_BILL], Bill._make(row[_BILL:]))) for row in rows]


def _sum_statements(query: UsageQuery, home: int, keys: Sequence[str]) -> tuple[str, str]:
    """Return what selects the sums of a home: of the files that have settled, and of those that grow."""
    groups = ", ".join([*_time_groups(query), *(key for key in keys if key != "NULL"), "model"])
    columns = f"min(time), {', '.join(keys)}, model"
    settled = f"""SELECT {columns}, {", ".join(f"sum({name})" for name in Bill._fields)} FROM spent
        WHERE home_id = {home} AND source_id NOT IN unsummed GROUP BY {groups}"""
    growing = f"""SELECT {columns}, {", ".join(_SUMS)} FROM answers
        WHERE counted = 1 AND home_id = {home} AND source_id IN unsummed GROUP BY {groups}"""
    return settled, growing


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
