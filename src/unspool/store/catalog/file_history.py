"""Answers which sessions changed a file, with their agents, from the statistics that indexing keeps of each session."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from unspool.store.database import IN_FOLDER, Roots, folder_parameters

MAX_PATHS: Final = 50
"""Of files that match a part of a path."""
_WITHIN: Final = f"SELECT id FROM sources WHERE {IN_FOLDER}"
# The index may belong to a session's own file or to an agent's; an agent's file may be of several sessions.
_SESSIONS: Final = f"""
WITH changed AS (
  SELECT coalesce(own.session_id, a.session_id, s.session_id) AS session_id, own.source_id IS NULL AS by_agent,
         c.changes, c.added, c.removed
  FROM changed_files c JOIN paths p ON p.id = c.path_id JOIN sources s ON s.id = c.source_id
  LEFT JOIN sessions own ON own.source_id = s.id LEFT JOIN agents a ON a.source_id = s.id
  WHERE p.path = :path AND c.source_id IN ({_WITHIN})
), added_up AS (
  SELECT session_id, sum(changes) AS changes, sum(added) AS added, sum(removed) AS removed, sum(by_agent) AS agents
  FROM changed WHERE session_id IS NOT NULL GROUP BY session_id
)
SELECT u.session_id, max(coalesce(n.title, '')), max(n.project), max(n.last), u.changes, u.added, u.removed, u.agents
FROM added_up u LEFT JOIN sessions n ON n.session_id = u.session_id AND n.source_id IN ({_WITHIN}) GROUP BY u.session_id
ORDER BY max(n.last) DESC, u.session_id
"""
_PATHS: Final = f"""
SELECT p.path, count(DISTINCT c.source_id) FROM paths p JOIN changed_files c ON c.path_id = p.id
WHERE (p.path = :part OR instr(p.path, :part)) AND c.source_id IN ({_WITHIN})
GROUP BY p.path ORDER BY p.path = :part DESC, 2 DESC, p.path LIMIT {MAX_PATHS + 1}
"""


class FileHistoryRow(NamedTuple):
    """What a session, with its agents, did to a file."""

    session: str
    title: str
    project: str | None
    last: str | None
    """When the session last went on, as written; None if only its agents are left."""
    changes: int
    added: int
    removed: int
    agents: int
    """How many of its agents changed the file."""


def read_file_history(database: sqlite3.Connection, roots: Roots, path: str) -> list[FileHistoryRow]:
    """Return the sessions that changed the file with exactly this path, the newest first."""
    values = {**folder_parameters(roots), "path": path}
    return [FileHistoryRow(*row) for row in database.execute(_SESSIONS, values)]


def find_changed_paths(database: sqlite3.Connection, roots: Roots, part: str) -> list[tuple[str, int]]:
    """Return the files whose path has a part, and how many files of lines changed each; one more than `MAX_PATHS`."""
    return database.execute(_PATHS, {**folder_parameters(roots), "part": part}).fetchall()
