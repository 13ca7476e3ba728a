"""Lists the sessions of folders as rows, for `unspool ls`.

Kept apart from `catalog.py`, which loads nearly twice as many modules: `unspool ls` must start as fast as it can.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from unspool.paths import project_name
from unspool.prices import ONLY_AGENTS, SessionFinder, known_cost
from unspool.store.database import IN_FOLDER, STORE, Roots, folder_parameters, list_roots, snapshot
from unspool.store.usage.ledger import FileCost, Ledger

Json: TypeAlias = dict[str, Any]

_COUNTS = ("turns", "messages", "tool_calls", "errors", "images", "compactions")
_LISTS = ("versions", "models", "pull_requests")
"""Columns that are JSON."""
_COLUMNS = (
    "title", "cwd", "branch", "started", "last", "turns", "messages", "tool_calls", "errors", "context_tokens",
    "images", "compactions", "hidden", "command_turns", *_LISTS,
)  # fmt: skip
_LIST_COLUMNS = {
    **{name: f"n.{name}" for name in (*_COLUMNS, "project")},
    "bytes": "max(s.size, s.offset)",
}
"""The fields of a row that are columns of a session (`n`) or of its file (`s`)."""


class SessionHeading(NamedTuple):
    """What pages show beside a link to a session."""

    title: str
    project: str | None
    branch: str | None
    started: str | None


def read_headings(
    database: sqlite3.Connection | None, roots: Roots, ids: Iterable[str | None]
) -> dict[str, SessionHeading]:
    """Return title, project, branch and start of the sessions with some ids, by id, but for those of other folders.

    Without a store there are none.
    """
    wanted = sorted({id for id in ids if id})
    if database is None or not wanted:
        return {}
    import json

    # The store has all folders that were ever read: one of them may have a session with the same id.
    query = f"""SELECT n.session_id, coalesce(n.title, ''), n.project, n.branch, n.started
        FROM sessions n JOIN sources s ON s.id = n.source_id
        WHERE n.session_id IN (SELECT value FROM json_each(:ids)) AND {IN_FOLDER} ORDER BY n.source_id"""
    values = {**folder_parameters(roots), "ids": json.dumps(wanted)}
    return {id: SessionHeading(*rest) for id, *rest in database.execute(query, values)}


def list_sessions(
    database: sqlite3.Connection,
    roots: Roots,
    ledger: Ledger,
    choose: Callable[[list[Json]], list[Json]] | None = None,
    needed: Iterable[str] = (),
) -> list[Json]:
    """Return a row for each session, with the fields of `export.counts.row` and those that filters need.

    Of thousands a command may print twenty. `choose` returns the rows that are wanted, in order; the ones it is given
    have the fields `id`, `path`, `gone`, `project_key`, `last`, `hidden`, `agents` and those in `needed`. Only what it
    returns is read in full.
    """
    import json

    decode = lru_cache(None)(json.loads)  # most sessions have one of a few lists
    file_costs = ledger.file_costs()  # before the snapshot: what was added up may be written
    more = [name for name in dict.fromkeys(("last", "hidden", *needed)) if name in _LIST_COLUMNS]
    lists = [name for name in _LISTS if name in more]
    names = ("id", "path", "gone", "source_id", "project_key", *more)
    columns = ", ".join(["n.source_id", "s.project", *(_LIST_COLUMNS[name] for name in more)])
    with snapshot(database):
        rows = [dict(zip(names, cells, strict=True)) for cells in select_listed(database, roots, columns)]
        files = read_agent_files(database, roots)
        agents = count_agents(files)
        for row in rows:
            row["agents"] = agents.get((row["id"], row["project_key"]), 0)
            for name in lists:
                row[name] = decode(row[name])
        costs = _add_up_costs(file_costs, ((row["path"], row["id"]) for row in rows), files)
        rows += [missing_session_row(missing) | costs.of(missing.own_path) for missing in costs.missing]
        chosen = rows if choose is None else choose(rows)
        read = _read_columns(database, [row["source_id"] for row in chosen if "source_id" in row])
    for row in chosen:
        if "source_id" in row:  # else it has no file of its own, and is complete
            row |= dict(zip(_LIST_COLUMNS, read[row.pop("source_id")], strict=True)) | costs.of(row["path"])
            row |= {name: decode(row[name]) for name in _LISTS} | {"gone": bool(row["gone"])}
    return chosen


def _read_columns(database: sqlite3.Connection, source_ids: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """Return the columns of a list, of the sessions in some files."""
    query = f"""SELECT n.source_id, {", ".join(_LIST_COLUMNS.values())} FROM json_each(?) asked
        CROSS JOIN sessions n ON n.source_id = asked.value CROSS JOIN sources s ON s.id = n.source_id"""
    return {id: cells for id, *cells in database.execute(query, (str(list(source_ids)),))}


def select_listed(database: sqlite3.Connection, roots: Roots, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield id, path, whether it has gone, and some columns of each session (`n`) and its file (`s`).

    One that has gone is left out where another file has it still.
    """
    query = f"""SELECT n.session_id, s.path, s.gone IS NOT NULL, {columns}
        FROM sessions n CROSS JOIN sources s ON s.id = n.source_id WHERE {IN_FOLDER}"""
    rows = database.execute(query, folder_parameters(roots)).fetchall()
    rows.sort(key=itemgetter(2, 1))  # those that are there first, then by path: faster than by SQLite
    listed = set()
    for row in rows:
        id, _, gone = row[:3]
        if not gone or id not in listed:
            listed.add(id)
            yield row


class OwnedAgentFile(NamedTuple):
    """An agent's file, and a session that it belongs to."""

    path: str
    session_id: str
    project_key: str | None = None
    gone: bool = False


class AgentsOnlySession(NamedTuple):
    """A session without a file of its own: the first of its agents' files stands for it."""

    own_path: str
    """The path that its own file would have."""
    id: str
    agents: int
    first: OwnedAgentFile
    gone: bool


class SessionCosts(NamedTuple):
    """What each session of a list cost, with its agents, and the sessions that have no file of their own."""

    costs: dict[str, tuple[int, int]]
    """By the path of the session's own file: micro-dollars, and tokens without a price."""
    missing: list[AgentsOnlySession]

    def of(self, path: str) -> Json:
        """Return what a session cost, as fields of its row; the cost is None if no part of it has a price."""
        cost, unpriced = self.costs.get(path, (0, 0))
        return {"cost_micros": known_cost(cost, unpriced), "unpriced_tokens": unpriced}


def find_session_ids(folder: Path, roots: Roots, prefix: str, limit: int = 100) -> list[tuple[str, str]]:
    """Return ids that begin with a text and their titles, newest first: from the store as it is, else from file names.

    A shell asks for this at every Tab: nothing is brought up to date, and no error is raised.
    """
    from urllib.parse import quote  # start-up: only a shell asks for this

    found: list[tuple[str, str]] = []
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"file:{quote(str(folder / STORE))}?mode=ro", uri=True)) as db,
    ):
        query = f"""SELECT n.session_id, coalesce(n.title, '') FROM sessions n JOIN sources s ON s.id = n.source_id
            WHERE {IN_FOLDER} AND substr(n.session_id, 1, :length) = :prefix ORDER BY n.last DESC LIMIT :limit"""
        more: dict[str, str | int] = {"prefix": prefix, "length": len(prefix), "limit": limit}
        found = db.execute(query, {**folder_parameters(roots), **more}).fetchall()
    if not found:
        names = (path.stem for root in list_roots(roots) for path in root.glob("projects/*/*.jsonl"))
        found = [(name, "") for name in names if name.startswith(prefix) and not name.startswith("agent-")][:limit]
    return list(dict(reversed(found)).items())[::-1]


def read_session_costs(
    ledger: Ledger, listed: Iterable[tuple[str, str]], agents: Sequence[OwnedAgentFile] = ()
) -> SessionCosts:
    """Return what sessions cost, given the path and id of each; every response is paid by one session.

    `agents` are all agents' files: a session that has nothing else is found by them, even if it cost nothing.
    """
    return _add_up_costs(ledger.file_costs(), listed, agents)


def _add_up_costs(
    file_costs: Iterable[FileCost], listed: Iterable[tuple[str, str]], agents: Sequence[OwnedAgentFile]
) -> SessionCosts:
    finder, costs = SessionFinder(listed), dict[str, tuple[int, int]]()
    for agent in agents:
        finder.find(agent.path, agent.session_id)
    for file, session, file_cost, file_unpriced in file_costs:
        path = finder.find(file or "", session or "")
        cost, unpriced = costs.get(path, (0, 0))
        costs[path] = (cost + file_cost, unpriced + file_unpriced)
    files = {agent.path: agent for agent in agents}
    missing = []
    for own, (id, paths) in finder.missing.items():
        known = [files[path] for path in paths if path in files]
        first = known[0] if known else OwnedAgentFile(paths[0], id)
        gone = bool(known) and all(file.gone for file in known)
        missing.append(AgentsOnlySession(own, id, len(paths), first, gone))
    return SessionCosts(costs, missing)


def missing_session_row(missing: AgentsOnlySession) -> Json:
    """Return the row of a session that has no file of its own: nothing is known of it but its agents."""
    counts: Json = dict.fromkeys(_COUNTS, 0) | {name: [] for name in _LISTS}
    return {
        **dict.fromkeys(_COLUMNS), **counts, "title": "", "hidden": ONLY_AGENTS, "id": missing.id,
        "path": missing.first.path, "project_key": missing.first.project_key,
        "project": project_name(None, missing.first.project_key), "bytes": 0,
        "agents": missing.agents, "gone": missing.gone,
    }  # fmt: skip


def read_agent_files(database: sqlite3.Connection, roots: Roots) -> list[OwnedAgentFile]:
    """Return the agents' files of some folders, once for each session that they belong to."""
    query = f"""SELECT path, agents.session_id, project, gone IS NOT NULL FROM agents
        JOIN sources ON sources.id = agents.source_id WHERE {IN_FOLDER}"""
    return [
        OwnedAgentFile(path, id, key, bool(gone))
        for path, id, key, gone in database.execute(query, folder_parameters(roots))
    ]


def count_agents(files: Iterable[OwnedAgentFile]) -> Counter[tuple[str, str | None]]:
    """Return how many agents each session of each project has."""
    return Counter((file.session_id, file.project_key) for file in files)
