"""Selects the files to collect, and their order.

Rules
  1. By priority: index (P0), transcripts (P0), sub-agents (P1), history (P2), statistics and small side files (P3).
     Within a kind, the files that changed last come first.
  2. Tool results too long for a transcript, backups of the user's files, memory, tasks and settings are collected only
     on request. Shell snapshots, the registry of processes and all other files are never collected.
  3. Where projects are selected, a file without a known project is left out: `history.jsonl` holds prompts of all.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from unspool.paths import SESSION_ID, project_key
from unspool.read import LINE_KINDS, Kind
from unspool.store import IN_FOLDER, Roots, folder_parameters
from unspool.store.sync import read_homes

RANKS: Final[Mapping[str, int]] = MappingProxyType(
    {
        Kind.INDEX.value: 0,
        Kind.SESSION.value: 1,
        Kind.AGENT.value: 10,
        Kind.JOURNAL.value: 10,
        Kind.AGENT_META.value: 11,
        Kind.HISTORY.value: 20,
        Kind.STATS.value: 30,
        Kind.TODOS.value: 31,
        Kind.PLAN.value: 31,
        Kind.TITLE.value: 31,
        Kind.WORKFLOW.value: 31,
        Kind.TASK.value: 32,
        Kind.MEMORY.value: 32,
        Kind.SETTINGS.value: 32,
        Kind.TOOL_RESULT.value: 33,
        Kind.FILE_BACKUP.value: 34,
    }
)
"""In which order kinds are sent; the tens are P0 to P3."""

OPTIONAL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tool-results": Kind.TOOL_RESULT.value,
        "file-history": Kind.FILE_BACKUP.value,
        "memory": Kind.MEMORY.value,
        "tasks": Kind.TASK.value,
        "settings": Kind.SETTINGS.value,
    }
)
"""Kinds that are collected only on request, by the word for `--with`."""

_LINES = frozenset(kind.value for kind in LINE_KINDS)


class SelectionRules(NamedTuple):
    """Which projects, times and optional kinds are collected."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Projects: keys, names of folders, paths; `*` stands for anything."""
    since: int | None = None
    """Only files that changed since: nanoseconds since 1970."""
    extras: frozenset[str] = frozenset()
    """Words of `OPTIONAL`."""


class CollectCandidate(NamedTuple):
    """A file that may have something new to collect, as the store knows it."""

    path: str
    kind: str
    project: str | None
    session_id: str | None
    agent_id: str | None
    generation: int
    size: int
    modified: int
    inode: int
    device: int
    offset: int
    head: bytes
    boundary: bytes
    archived: int
    gone: int | None
    home: str

    @property
    def rank(self) -> int:
        """Its priority; lower is sent earlier."""
        return RANKS[self.kind]

    @property
    def is_lines(self) -> bool:
        """Whether it is a file of lines; others are sent whole."""
        return self.kind in _LINES

    @property
    def source(self) -> str:
        """Its path in the config folder."""
        inside = self.path.removeprefix(self.home).lstrip(os.sep)
        return inside or self.path.rpartition(os.sep)[2]

    @property
    def seen(self) -> str:
        """A text that changes whenever there is something new to collect."""
        if self.is_lines:
            return f"{self.generation}:{self.offset}:{self.head.hex()}:{self.boundary.hex()}"
        return f"{self.size}:{self.modified}:{self.inode}"


_COLUMNS = ", ".join((*CollectCandidate._fields[:-1], "home_id"))


def find_candidates(database: sqlite3.Connection, roots: Roots, rules: SelectionRules) -> list[CollectCandidate]:
    """Return the files of config folders to collect, in the order of sending."""
    home_paths = {home.id: home.path for home in read_homes(database)}
    rows = database.execute(f"SELECT {_COLUMNS} FROM sources WHERE {IN_FOLDER}", folder_parameters(roots)).fetchall()
    # Only kinds with a rank: shell snapshots, the registry of processes and whatever else there is are never sent.
    kinds = RANKS.keys() - {kind for word, kind in OPTIONAL.items() if word not in rules.extras}
    candidates = [CollectCandidate._make((*row[:-1], home_paths[row[-1]])) for row in rows if row[1] in kinds]
    if rules.since is not None:
        candidates = [candidate for candidate in candidates if candidate.modified >= rules.since]
    if rules.include or rules.exclude:
        sessions = (candidate for candidate in candidates if candidate.kind == Kind.SESSION.value)
        projects: dict[str | None, set[str | None]] = {}
        for session in sessions:
            projects.setdefault(session.session_id, set()).add(session.project)
        candidates = [
            candidate
            for candidate in candidates
            if all(_is_selected(project, rules) for project in _projects(candidate, projects))
        ]
    return sorted(candidates, key=lambda candidate: (candidate.rank, -candidate.modified, candidate.path))


def is_refused(database: sqlite3.Connection, path: str, rules: SelectionRules) -> bool:
    """Return whether nothing of a file may be sent: segments made under earlier rules are checked too."""
    if not (rules.include or rules.exclude):
        return False
    first, *others = _parts_inside(database, path)
    if first == "projects":
        return not _is_selected(others[0] if len(others) > 1 else None, rules)
    # Outside of `projects` a file belongs to one session (its id is in the name) or, like the history, to all.
    named = SESSION_ID.search("/".join(others[-2:]))
    query = "SELECT DISTINCT project FROM sources WHERE kind = ? AND session_id = ?"
    rows = database.execute(query, (Kind.SESSION.value, named[0])).fetchall() if named else []
    return not rows or not all(_is_selected(project, rules) for (project,) in rows)


def _parts_inside(database: sqlite3.Connection, path: str) -> tuple[str, ...]:
    """Return the parts of a file's path inside its config folder, which may itself be below a folder `projects`."""
    homes = (home.path.rstrip(os.sep) + os.sep for home in read_homes(database))
    home = max((home for home in homes if path.startswith(home)), key=len, default="")
    return Path(path.removeprefix(home)).parts or ("",)


def _projects(candidate: CollectCandidate, projects: Mapping[str | None, set[str | None]]) -> set[str | None]:
    """Return the projects of a file: by its path, or by the session it belongs to, which may have been copied."""
    if candidate.project is not None:
        return {candidate.project}
    named = SESSION_ID.match(Path(candidate.path).name)
    return projects.get(candidate.session_id or (named[0] if named else None)) or {None}


def _is_selected(project: str | None, rules: SelectionRules) -> bool:
    # Fails closed: what cannot be assigned to a project is not sent.
    if project is None or any(matches_project(project, pattern) for pattern in rules.exclude):
        return False
    return not rules.include or any(matches_project(project, pattern) for pattern in rules.include)


def matches_project(project: str, pattern: str) -> bool:
    """Return whether a pattern matches a project's key, its last part or the folder's path."""
    if pattern.startswith(("/", "~", "./", "../")):
        return project == project_key(os.path.abspath(Path(pattern).expanduser()))  # noqa: PTH100 - as `paths.absolute`
    return fnmatchcase(project, pattern) or fnmatchcase(project, f"*-{project_key(pattern)}")
