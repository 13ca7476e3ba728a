"""Which files of sessions and sub-agents there are, by name alone; nothing is opened.

Rules
  1. Links are not followed. A folder that cannot be read costs nothing else.
  2. A file is known by its path: `agent-*.jsonl` is a sub-agent, of the session whose folder it lies in if it lies in
     one; any other `.jsonl` but journals and the history is a session.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool.paths import SESSION_ID
from unspool.read.scan import Stamp, stamp_of

_SKIPPED = frozenset({"tool-results", "file-history", "memory", "todos", "tasks", "plugins", "node_modules"})
_NO_SESSIONS = frozenset({"journal.jsonl", "history.jsonl"})
_DEEPEST = 12


class Name(NamedTuple):
    """What the path of a file says."""

    session_id: str | None
    agent_id: str | None = None
    project: str | None = None
    """The name of the project's folder."""

    @property
    def is_agent(self) -> bool:
        """Whether it is a sub-agent's."""
        return self.agent_id is not None


def projects_of(root: Path) -> Path:
    """Return where the sessions of a config folder lie; of any other folder, or a file, itself."""
    inner = root / "projects"
    return inner if inner.is_dir() and not inner.is_symlink() else root


def named(path: str, projects: str) -> Name | None:
    """Return what a path says; nothing if it is no session and no sub-agent."""
    folder, _, name = path.rpartition(os.sep)
    if not name.endswith(".jsonl") or name in _NO_SESSIONS:
        return None
    parts = Path(folder.removeprefix(projects).strip(os.sep)).parts
    if len(parts) > 1 and parts[0] == "projects":  # it has come to be since the folder was first looked at
        parts = parts[1:]
    project = parts[0] if parts else folder.rpartition(os.sep)[2] or None
    stem = name.removesuffix(".jsonl")
    if not stem.startswith("agent-"):
        return Name(stem, project=project)
    session = next((part for part in reversed(parts) if SESSION_ID.fullmatch(part)), None)
    return Name(session, stem.removeprefix("agent-") or stem, project)


def walk(projects: Path) -> Iterator[tuple[str, Stamp]]:
    """Yield every file that may be one, with what the system says of it."""
    if not projects.is_dir():
        if (stamp := stamp_at(str(projects))) is not None:
            yield str(projects), stamp
        return
    yield from below(str(projects))


def below(folder: str, depth: int = 0) -> Iterator[tuple[str, Stamp]]:
    """Yield the same for what lies in a folder."""
    try:
        with os.scandir(folder) as listing:
            children = list(listing)
    except OSError:
        return
    for child in children:
        try:
            if child.name.endswith(".jsonl"):
                status = child.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and child.name not in _NO_SESSIONS:
                    yield child.path, stamp_of(status)
            elif depth < _DEEPEST and child.is_dir(follow_symlinks=False) and child.name not in _SKIPPED:
                yield from below(child.path, depth + 1)
        except OSError:
            continue


def stamp_at(path: str) -> Stamp | None:
    """Return what the system says of a file; nothing if there is no regular one."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stamp_of(status) if stat.S_ISREG(status.st_mode) else None
