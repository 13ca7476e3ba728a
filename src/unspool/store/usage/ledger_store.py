"""Usage from the store: the rows of `answers` added up by SQLite.

Rules
  1. A report covers the folder it was asked for. Where that is a home, the marks in `answers` say what counts; in a
     part of a home, or around several, what counts is found anew among the files that are there.
  2. What was added up is remembered without the files in `unsummed`, whose answers are added up anew: a session that
     goes on changes nothing else. The writer forgets it when another file joins them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspool.store.database import snapshot, transaction
from unspool.store.sync.changes import WITHIN, homes, within
from unspool.store.usage.ledger import (
    DAY,
    DAYS_FROM,
    DAYS_TO,
    KEYS,
    QUARTER,
    Explained,
    Limit,
    Sum,
    Wanted,
    fits_project,
    milliseconds,
)

if TYPE_CHECKING:
    from unspool.store.usage.ledger import Ledger

_SUMMED = (
    "count(*)",
    "count(*) - sum(final)",
    "sum(input_tokens)",
    "sum(output_tokens)",
    "sum(cache_read_tokens)",
    "sum(cache_write_5m_tokens)",
    "sum(cache_write_1h_tokens)",
    "sum(web_searches)",
    "sum(cost_micros)",
    "sum(unpriced_tokens)",
    "sum(estimated_output_tokens)",
    "sum(estimated_cost_micros)",
)

_GROWING = 8
"""Files whose answers are added up anew each time, so that what was added up of all others holds while they grow."""
_ADDED = Sum._fields[Sum._fields.index("responses") :]
_ADD_UP = f"""INSERT INTO spent
    SELECT source_id, home_id, min(time), {", ".join(KEYS.values())}, model, {", ".join(_SUMMED)} FROM answers
    WHERE counted = 1 AND source_id IN unsummed
    GROUP BY source_id, time / {QUARTER}, {", ".join(KEYS.values())}, model"""


def _questions(wanted: Wanted, home: int, keys: Sequence[str]) -> tuple[str, str]:
    """Return what asks for the sums of a home: one question for what has settled, one for the files that grow."""
    groups = ", ".join([*_grain(wanted), *(key for key in keys if key != "NULL"), "model"])
    columns = f"min(time), {', '.join(keys)}, model"
    settled = f"""SELECT {columns}, {", ".join(f"sum({name})" for name in _ADDED)} FROM spent
        WHERE home_id = {home} AND source_id NOT IN unsummed GROUP BY {groups}"""
    growing = f"""SELECT {columns}, {", ".join(_SUMMED)} FROM answers
        WHERE counted = 1 AND home_id = {home} AND source_id IN unsummed GROUP BY {groups}"""
    return settled, growing


def _grain(wanted: Wanted) -> list[str]:
    """Return what tells times apart."""
    if wanted.days is None:
        return [f"time / {QUARTER}"]
    if not wanted.days:
        return []
    *before, (_, last) = wanted.days
    cases = " ".join(f"WHEN time < {until} THEN {ahead}" for until, ahead in before)
    ahead = f"CASE {cases} ELSE {last} END" if before else str(last)
    known = f"time >= {milliseconds(f'{DAYS_FROM}-01-02')} AND time < {milliseconds(f'{DAYS_TO}-01-01')}"
    return [f"CASE WHEN {known} THEN (time + {ahead}) / {DAY} ELSE -1 - time / {QUARTER} END"]


class StoreLedger:
    """What was billed in a folder, as the store knows it."""

    def __init__(self, database: sqlite3.Connection, root: Path, lines: Callable[[], Ledger]) -> None:
        self._database, self._root = database, root
        self._lines = lines
        """Gives a ledger of the lines themselves, for what the store does not keep."""

    def sums(self, wanted: Wanted) -> list[Sum]:
        """Return the responses wanted, added up as far as that is allowed."""
        home = self._home()
        if home is None:
            return self._lines().sums(wanted)
        keys = [column if key in wanted.keys else "NULL" for key, column in KEYS.items()]
        is_whole = wanted._replace(keys=frozenset(), days=None) == Wanted()
        if is_whole and (sums := self._remembered(*_questions(wanted, home, keys))) is not None:
            return sums
        where, values = "counted = 1 AND home_id = ?", [home]
        if wanted.since is not None:
            where, values = where + " AND time >= ?", [*values, wanted.since]
        if wanted.until is not None:
            where, values = where + " AND time < ?", [*values, wanted.until]
        chosen, names = self._projects(home, wanted)
        groups = ["time", *keys, "model", "id"] if wanted.exact else [f"time / {QUARTER}", *keys, "model"]
        query = f"""SELECT min(time), {", ".join(keys)}, model, {", ".join(_SUMMED)} FROM answers
            WHERE {where}{chosen} GROUP BY {", ".join(groups)}"""
        return list(map(Sum._make, self._database.execute(query, [*values, *names])))

    def _remembered(self, settled: str, growing: str) -> list[Sum] | None:
        """Return what two questions give, the first asked once while that holds; nothing if it cannot be kept."""
        import json

        rows: list[list[Any]]
        with snapshot(self._database):
            known = self._database.execute("SELECT answer FROM remembered WHERE question = ?", (settled,)).fetchone()
            if known is not None:
                rows = json.loads(known[0])
                return [*map(Sum._make, rows), *map(Sum._make, self._database.execute(growing))]
        try:
            with transaction(self._database):
                self._add_up()
                rows = [list(row) for row in self._database.execute(settled)]
                self._database.execute("INSERT OR REPLACE INTO remembered VALUES (?, ?)", (settled, json.dumps(rows)))
                return [*map(Sum._make, rows), *map(Sum._make, self._database.execute(growing))]
        except sqlite3.OperationalError:  # the store cannot be written: the answers themselves will do
            return None

    def _add_up(self) -> None:
        """Bring `spent` up to date, unless all that is missing is a few files: those may be growing still."""
        if self._database.execute("SELECT count(*) FROM unsummed").fetchone()[0] > _GROWING:
            self._database.execute("DELETE FROM spent WHERE source_id IN unsummed")
            self._database.execute(_ADD_UP)
            self._database.execute("DELETE FROM unsummed")
            self._database.execute("DELETE FROM remembered")

    def limits(self) -> list[Limit]:
        """Return when limits were reached."""
        query = f"""SELECT DISTINCT time, notice FROM limits JOIN sources ON sources.id = limits.source_id
            WHERE {WITHIN} ORDER BY time"""
        return [Limit(*row) for row in self._database.execute(query, within(self._root))]

    def explain(self, wanted: Wanted) -> Explained:
        """Return which lines were counted, merged and dropped, and why: the lines are read for it."""
        return self._lines().explain(wanted)

    def _home(self) -> int | None:
        """Return the home that the folder is; nothing if it is a part of one, or others are inside."""
        root, inner = str(self._root), within(self._root)["first"]
        found = homes(self._database)
        if any(row.path.startswith(inner) for row in found):
            return None
        return next((row.id for row in found if row.path == root), None)

    def _projects(self, home: int, wanted: Wanted) -> tuple[str, Sequence[Any]]:
        """Return what restricts a query to a project."""
        if wanted.project is None:
            return "", ()
        query = """SELECT DISTINCT a.project, a.cwd, s.project, a.source_id FROM answers a
            JOIN sources s ON s.id = a.source_id WHERE a.home_id = ? AND a.counted = 1"""
        fitting = {
            (cwd, source)
            for name, cwd, key, source in self._database.execute(query, (home,))
            if fits_project(wanted.project, name, cwd, key)
        }
        if not fitting:
            return " AND 0", ()
        pairs = ", ".join(["(?, ?)"] * len(fitting))
        values = [value for cwd, source in fitting for value in (cwd or "", source)]
        return f" AND (coalesce(cwd, ''), source_id) IN (VALUES {pairs})", values
