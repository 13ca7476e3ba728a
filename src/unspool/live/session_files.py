"""Finds the files of sessions and sub-agents by their paths, and reads when their last line was written.

Rules
  1. Links are not followed. A folder that cannot be read is reported and passed over.
  2. A path says what the file is: `agent-*.jsonl` is a sub-agent, of the session in whose folder it lies, if it lies in
     one; any other `.jsonl` file is a session, except journals and the history.
  3. A file's own time is that of its last line: copies and backups have the time at which they were made.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from unspool.files import error_reason
from unspool.format import parse_local_time
from unspool.paths import SESSION_ID
from unspool.read import Skipped, Stamp, stamp_of

_SKIPPED_FOLDERS = frozenset({"tool-results", "file-history", "memory", "todos", "tasks", "plugins", "node_modules"})
_OTHER_FILES = frozenset({"journal.jsonl", "history.jsonl"})
_MAX_DEPTH = 12
_TAIL_BYTES = 8192
"""At the end of a file, in which the time of the last line is searched."""
_TIMESTAMP = b'"timestamp":"'


class SessionFileName(NamedTuple):
    """What the path of a session file says about it."""

    session_id: str | None
    agent_id: str | None = None
    project: str | None = None
    """The name of the project's folder, in which `/` is written as `-`."""

    @property
    def is_agent(self) -> bool:
        """Whether it is the file of a sub-agent."""
        return self.agent_id is not None


def projects_folder(root: Path) -> Path:
    """Return the folder of a config folder's sessions; for any other folder, or a file, return it unchanged."""
    inner = root / "projects"
    return inner if is_folder(inner) and not inner.is_symlink() else root


def is_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder; of one that cannot be reached nothing is known."""
    try:
        return path.is_dir()
    except OSError:
        return False


def parse_session_path(path: str, projects: str) -> SessionFileName | None:
    """Return what a path says; None if it is neither a session nor a sub-agent."""
    folder, _, name = path.rpartition(os.sep)
    if not name.endswith(".jsonl") or name in _OTHER_FILES:
        return None
    parts = Path(folder.removeprefix(projects).strip(os.sep)).parts
    if len(parts) > 1 and parts[0] == "projects":  # the config folder had no `projects` when the board was opened
        parts = parts[1:]
    project = parts[0] if parts else folder.rpartition(os.sep)[2] or None
    stem = name.removesuffix(".jsonl")
    if not stem.startswith("agent-"):
        return SessionFileName(stem, project=project)
    session = next((part for part in reversed(parts) if SESSION_ID.fullmatch(part)), None)
    return SessionFileName(session, stem.removeprefix("agent-") or stem, project)


def find_session_files(
    projects: Path, on_skipped: Callable[[Skipped], None] = lambda _: None
) -> Iterator[tuple[str, Stamp]]:
    """Yield the session and sub-agent files below a projects folder, each with its stamp."""
    if is_folder(projects):
        yield from walk_folder(str(projects), on_skipped)
    elif (stamp := read_stamp(str(projects))) is not None:
        yield str(projects), stamp


def walk_folder(
    folder: str, on_skipped: Callable[[Skipped], None] = lambda _: None, depth: int = 0
) -> Iterator[tuple[str, Stamp]]:
    """Yield the session and sub-agent files in a folder and its subfolders, each with its stamp."""
    try:
        with os.scandir(folder) as listing:
            children = list(listing)
    except (FileNotFoundError, NotADirectoryError):  # it was removed since it was found, or is no folder any more
        return
    except OSError as error:
        on_skipped(Skipped(Path(folder), error_reason(error)))
        return
    for child in children:
        try:
            if child.name.endswith(".jsonl"):
                status = child.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and child.name not in _OTHER_FILES:
                    yield child.path, stamp_of(status)
            elif depth < _MAX_DEPTH and child.is_dir(follow_symlinks=False) and child.name not in _SKIPPED_FOLDERS:
                yield from walk_folder(child.path, on_skipped, depth + 1)
        except FileNotFoundError:  # it was removed since the folder was listed
            continue
        except OSError as error:  # a folder that may be listed and not entered
            on_skipped(Skipped(Path(child.path), error_reason(error)))


def read_stamp(path: str) -> Stamp | None:
    """Return the stamp of a regular file; None if there is none, or if it is a link."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stamp_of(status) if stat.S_ISREG(status.st_mode) else None


def read_last_time(path: str, size: int) -> datetime | None:
    """Return the time of the last line of a file, from its end; None if the end has none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            tail = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        finally:
            os.close(descriptor)
    except OSError:
        return None
    # Within a string the quotes would have a backslash before them.
    at = tail.rfind(_TIMESTAMP)
    text = tail[at + len(_TIMESTAMP) :].partition(b'"')[0][:40] if at >= 0 else b""
    return parse_local_time(text.decode("ascii", "replace"), UTC) if text else None
