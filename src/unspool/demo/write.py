"""Writes the whole demo config folder.

Rules
  1. The output is deterministic: the same names, bytes, modes and times, wherever and whenever it is written.
  2. Only an empty folder, or an earlier demo (it has `.unspool-demo`), is written to. Other files in an earlier demo
     are kept.
  3. Nothing outside the folder is changed: no link is followed.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import msgspec

from unspool.demo import damaged_sessions, project_birds, project_ledger, project_tide, side_files
from unspool.demo.files import File
from unspool.demo.files import files as project_files
from unspool.errors import Refused

MARKER = ".unspool-demo"
_MARKER_TEXT = b"Written by `unspool demo`: nothing in here happened, and it may be written again at any time.\n"


class Summary(msgspec.Struct, frozen=True):
    """How many sessions, agents, files and bytes were written."""

    sessions: int
    agents: int
    files: int
    bytes: int


def write_demo(folder: Path) -> Summary:
    """Write the demo; the folder becomes a config folder."""
    _check_target(folder)
    files = contents()
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
    return Summary(len(sessions), len(agents), len(files), sum(len(file.data) for file in files))


def contents() -> list[File]:
    """Return every file of the demo, sorted by path."""
    tide, ledger = project_tide.project(), project_ledger.project()
    others = [project_birds.project(), damaged_sessions.project()]
    files = [file for project in (tide, ledger, *others) for file in project_files(project)]
    files += side_files.files(tide, ledger, others)
    files.append(File(MARKER, _MARKER_TEXT, f"{side_files.TODAY}T08:00:00.000Z"))
    return sorted(files)


def _check_target(folder: Path) -> None:
    # A link may point into a real config folder, which a demo must never be written to.
    if folder.is_symlink():
        raise Refused(f"a link, not a folder: `{folder}`", hint="name the folder itself, or a new one")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise Refused(f"not a folder: `{folder}`", hint="name a folder that is empty or does not exist")
    marker = folder / MARKER
    if any(folder.iterdir()) and (marker.is_symlink() or not marker.is_file()):
        raise Refused(f"not empty: `{folder}`", hint="name a folder that is empty or does not exist")


def _check_obstacles(folders: list[Path], files: list[Path]) -> None:
    """Refuse a demo if something else exists where a file or folder has to be."""
    blocked = [path for path in folders if path.is_symlink() or (path.exists() and not path.is_dir())]
    blocked += [path for path in files if path.is_dir() and not path.is_symlink()]
    if blocked:
        raise Refused(f"in the way: `{blocked[0]}`", hint="write the demo to a new folder")


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
