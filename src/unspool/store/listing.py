"""The sessions of a folder as rows, from the store: what `export.counts.row` tells of each, and what filters need."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, TypeAlias

from unspool.store.billed import Ledger, Wanted
from unspool.store.freshness import WITHIN, within

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
    for row in ledger.sums(Wanted(frozenset({"session"}), days=())):
        costs[row.session] = costs.get(row.session, 0) + row.cost_micros
    return costs


def agents_by_session(database: sqlite3.Connection, root: Path) -> dict[tuple[str, str | None], int]:
    """Return how many agents each session of each project has."""
    query = f"""SELECT agents.session_id, project, count(*) FROM agents JOIN sources ON sources.id = agents.source_id
        WHERE {WITHIN} GROUP BY agents.session_id, project"""
    return {(id, project): count for id, project, count in database.execute(query, within(root))}
