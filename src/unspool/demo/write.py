"""Writes the whole demo config folder.

Rules
  1. The output is deterministic: the same `now`, or none, gives the same names, bytes, modes and times everywhere.
  2. Only an empty folder, or an earlier demo (it has `.unspool-demo`), is written to. Other files in an earlier demo
     are kept.
  3. Nothing outside the folder is changed: no link is followed.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from unspool.demo import current_sessions, damaged_sessions, project_birds, project_ledger, project_tide, side_files
from unspool.demo.files import File
from unspool.demo.files import files as project_files
from unspool.errors import Refused
from unspool.format import format_timestamp

MARKER = ".unspool-demo"
_MARKER_TEXT = b"Written by `unspool demo`: nothing in here happened, and it may be written again at any time.\n"


class DemoSummary(msgspec.Struct, frozen=True):
    """How many sessions, agents, files and bytes were written."""

    sessions: int
    agents: int
    files: int
    bytes: int


def write_demo(folder: Path, now: datetime | None = None) -> DemoSummary:
    """Write the demo; the folder becomes a config folder.

    Without `now` all dates are the demo's own. With it they are moved by whole days, the newest to the day before
    `now`, and three sessions are added that happen at `now`: one asks for permission.
    """
    _check_target(folder)
    files = contents(now)
    places = sorted({parent for file in files for parent in Path(file.place).parents})
    # Before anything is written: a refused demo leaves the folder as it was.
    _check_obstacles([folder / place for place in places], [folder / file.place for file in files])
    folder.parent.mkdir(parents=True, exist_ok=True)
    for place in places:
        (folder / place).mkdir(exist_ok=True)
        (folder / place).chmod(0o700)
    for file in files:
        _write_file(folder / file.place, file)
    # Last, because each new file changes the time of its folder.
    for place in reversed(places):
        newest = max(file.time for file in files if Path(file.place).is_relative_to(place))
        _set_time(folder / place, newest)
    agents = [file for file in files if Path(file.place).match("agent-*.jsonl")]
    sessions = [file for file in files if Path(file.place).match("projects/*/*.jsonl") and file not in agents]
    return DemoSummary(len(sessions), len(agents), len(files), sum(len(file.data) for file in files))


def contents(now: datetime | None = None) -> list[File]:
    """Return every file of the demo, sorted by path."""
    written = datetime.fromisoformat(side_files.NOW)
    shift = timedelta(days=(now - written).days) if now else timedelta()
    tide, ledger = project_tide.project(shift), project_ledger.project(shift)
    others = [project_birds.project(shift), damaged_sessions.project(shift)]
    if now:
        others.append(current_sessions.project(now))
    files = [file for project in (tide, ledger, *others) for file in project_files(project)]
    files += side_files.files(tide, ledger, others, shift)
    files.append(File(MARKER, _MARKER_TEXT, format_timestamp(written + shift)))
    return sorted(files)


def _check_target(folder: Path) -> None:
    # A link may point into a real config folder, which a demo must never be written to.
    if folder.is_symlink():
        raise Refused(f"`{folder}` is a symbolic link, not a folder", hint="name the folder itself or a new one")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise Refused(f"`{folder}` is not a folder", hint="choose a new or empty folder")
    marker = folder / MARKER
    if any(folder.iterdir()) and (marker.is_symlink() or not marker.is_file()):
        raise Refused(f"`{folder}` is not empty", hint="choose a new or empty folder")


def _check_obstacles(folders: list[Path], files: list[Path]) -> None:
    """Refuse a demo if something else exists where a file or folder has to be."""
    blocked = [path for path in folders if path.is_symlink() or (path.exists() and not path.is_dir())]
    blocked += [path for path in files if path.is_dir() and not path.is_symlink()]
    if blocked:
        raise Refused(f"`{blocked[0]}` already exists", hint="choose a new or empty folder")


def _write_file(path: Path, file: File) -> None:
    # Deleted first, not overwritten: the old file may be a link, or have a second name elsewhere.
    path.unlink(missing_ok=True)
    with path.open("xb") as output:
        os.fchmod(output.fileno(), 0o600)
        output.write(file.data)
    _set_time(path, file.time)


def _set_time(path: Path, time: str) -> None:
    milliseconds = round(datetime.fromisoformat(time).timestamp() * 1000)
    os.utime(path, ns=(milliseconds * 1_000_000, milliseconds * 1_000_000))
