"""Selects the files to collect, and their order.

Rules
  1. By priority: index (P0), transcripts (P0), sub-agents (P1), history (P2), statistics and small side files (P3).
     What was changed last comes first.
  2. Results too long for a transcript, backups of the user's files, memory, tasks and settings are collected only if
     asked for. Shell snapshots, the registry of processes and whatever else there is never are.
  3. Where projects are chosen, a file of which nobody knows the project is left out: `history.jsonl` tells of all.
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
from unspool.store import IN_FOLDER, folder_parameters
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
"""What is collected only if asked for, by the word that asks."""

_LINES = frozenset(kind.value for kind in LINE_KINDS)
_COLUMNS = """path, kind, project, session_id, agent_id, generation, size, modified, inode, device, offset, head,
    boundary, archived, gone, home_id"""


class SelectionRules(NamedTuple):
    """What a person wants collected."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Projects: keys, names of folders, paths; `*` stands for anything."""
    since: int | None = None
    """Only files that changed since: nanoseconds since 1970."""
    extras: frozenset[str] = frozenset()
    """Words of `OPTIONAL`."""


class CollectCandidate(NamedTuple):
    """A file of which something may be to collect."""

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
        """Its place in the order."""
        return RANKS[self.kind]

    @property
    def is_lines(self) -> bool:
        """Whether it is a file of lines, and not one that is taken whole."""
        return self.kind in _LINES

    @property
    def source(self) -> str:
        """Its path in the config folder."""
        inside = self.path.removeprefix(self.home).lstrip(os.sep)
        return inside or self.path.rpartition(os.sep)[2]

    @property
    def seen(self) -> str:
        """What changes whenever something is to be collected."""
        if self.is_lines:
            return f"{self.generation}:{self.offset}:{self.head.hex()}:{self.boundary.hex()}"
        return f"{self.size}:{self.modified}:{self.inode}"


def find_candidates(database: sqlite3.Connection, root: Path, choice: SelectionRules) -> list[CollectCandidate]:
    """Return what is to be collected of a folder, in order."""
    places = {home.id: home.path for home in read_homes(database)}
    rows = database.execute(f"SELECT {_COLUMNS} FROM sources WHERE {IN_FOLDER}", folder_parameters(root)).fetchall()
    unwanted = {kind for word, kind in OPTIONAL.items() if word not in choice.extras}
    wanted = RANKS.keys() - unwanted
    found = [CollectCandidate._make((*row[:-1], places[row[-1]])) for row in rows if row[1] in wanted]
    if choice.since is not None:
        found = [one for one in found if one.modified >= choice.since]
    if choice.include or choice.exclude:
        projects = {one.session_id: one.project for one in found if one.kind == Kind.SESSION.value}
        found = [one for one in found if _is_chosen(_project(one, projects), choice)]
    return sorted(found, key=lambda one: (one.rank, -one.modified, one.path))


def is_refused(path: str, choice: SelectionRules) -> bool:
    """Tell whether nothing of a file may be sent, by the place it has: what waits from before is asked too."""
    if not (choice.include or choice.exclude):
        return False
    parts = Path(path).parts
    if "projects" not in parts:  # of some session, or of all
        return SESSION_ID.search("/".join(parts[-2:])) is None
    return not _is_chosen(next(iter(parts[parts.index("projects") + 1 :]), None), choice)


def _project(one: CollectCandidate, projects: Mapping[str | None, str | None]) -> str | None:
    """Return the project of a file: by its place, or by the session it belongs to."""
    if one.project is not None:
        return one.project
    named = SESSION_ID.match(Path(one.path).name)
    return projects.get(one.session_id or (named[0] if named else None))


def _is_chosen(project: str | None, choice: SelectionRules) -> bool:
    if project is None or any(_fits(project, pattern) for pattern in choice.exclude):
        return False
    return not choice.include or any(_fits(project, pattern) for pattern in choice.include)


def _fits(project: str, pattern: str) -> bool:
    """Tell whether a project's key is meant: by itself, by its last part, or by the folder's path."""
    if pattern.startswith(("/", "~", "./", "../")):
        return project == project_key(os.path.abspath(Path(pattern).expanduser()))  # noqa: PTH100 - as `paths.absolute`
    return fnmatchcase(project, pattern) or fnmatchcase(project, f"*-{project_key(pattern)}")
