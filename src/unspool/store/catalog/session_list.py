"""Lists the sessions of a folder as rows, for `unspool ls`.

Kept apart from `catalog.py`, which loads nearly twice as many modules: `unspool ls` must start as fast as it can.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from unspool.store.database import IN_FOLDER, folder_parameters
from unspool.store.usage.ledger import Ledger, UsageQuery

Json: TypeAlias = dict[str, Any]

_LISTS = ("versions", "models", "pull_requests")
"""Columns that are JSON."""
_COLUMNS = (
    "title", "cwd", "branch", "started", "last", "turns", "messages", "tool_calls", "errors", "context_tokens",
    "images", "compactions", "hidden", *_LISTS,
)  # fmt: skip


def list_sessions(database: sqlite3.Connection, root: Path, ledger: Ledger) -> list[Json]:
    """Return a row for each session, with the fields of `export.counts.row` and those that filters need."""
    import json

    costs, agents = read_session_costs(ledger), count_agents(database, root)
    rows: list[Json] = []
    columns = f"s.project, n.project, max(s.size, s.offset), {', '.join(f'n.{name}' for name in _COLUMNS)}"
    for id, path, gone, key, project, size, *cells in select_listed(database, root, columns):
        row = dict(zip(_COLUMNS, cells, strict=True))
        row |= {name: json.loads(row[name]) for name in _LISTS}
        row |= {"id": id, "path": path, "project_key": key, "project": project, "bytes": size}
        row |= {"agents": agents.get((id, key), 0), "cost_micros": costs.get(id, 0), "gone": bool(gone)}
        rows.append(row)
    return rows


def select_listed(database: sqlite3.Connection, root: Path, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield id, path, whether it has gone, and some columns of each session (`n`) and its file (`s`).

    One that has gone is left out where another file has it still.
    """
    query = f"""SELECT n.session_id, s.path, s.gone IS NOT NULL, {columns}
        FROM sessions n CROSS JOIN sources s ON s.id = n.source_id WHERE {IN_FOLDER}"""
    rows = database.execute(query, folder_parameters(root)).fetchall()
    rows.sort(key=itemgetter(2, 1))  # those that are there first, then by path: faster than by SQLite
    listed = set()
    for row in rows:
        id, _, gone = row[:3]
        if not gone or id not in listed:
            listed.add(id)
            yield row


def read_session_costs(ledger: Ledger) -> dict[str | None, int]:
    """Return what each session cost, with its agents. A response that several have is counted where it came from."""
    costs: dict[str | None, int] = {}
    for row in ledger.sums(UsageQuery(frozenset({"session"}), days=())):
        costs[row.session] = costs.get(row.session, 0) + row.bill.cost_micros
    return costs


def count_agents(database: sqlite3.Connection, root: Path) -> dict[tuple[str, str | None], int]:
    """Return how many agents each session of each project has."""
    query = f"""SELECT agents.session_id, project, count(*) FROM agents JOIN sources ON sources.id = agents.source_id
        WHERE {IN_FOLDER} GROUP BY agents.session_id, project"""
    return {(id, project): count for id, project, count in database.execute(query, folder_parameters(root))}
