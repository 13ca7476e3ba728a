"""Writes the whole demo config folder.

Rules
  1. Deterministic: the same names, bytes, modes and times, wherever and whenever it is written.
  2. Only an empty folder, or a demo written before (it has `.unspool-demo`), is written to. What else lies in an
     older demo stays.
  3. Nothing outside the folder is touched: no link is followed, no file is written through.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import msgspec

from unspool.demo import damaged, project_birds, project_ledger, project_tide, side_files
from unspool.demo.files import File
from unspool.demo.files import files as project_files
from unspool.errors import Refused

MARKER = ".unspool-demo"
_WORDS = b"Written by `unspool demo`: nothing in here happened, and it may be written again at any time.\n"


class Summary(msgspec.Struct, frozen=True):
    """What was written."""

    sessions: int
    agents: int
    files: int
    bytes: int


def write_demo(folder: Path) -> Summary:
    """Write the demo; the folder becomes a config folder."""
    _check(folder)
    made = contents()
    places = sorted({parent for file in made for parent in Path(file.place).parents})
    _check_way([folder / place for place in places], [folder / file.place for file in made])
    folder.parent.mkdir(parents=True, exist_ok=True)
    for place in places:
        (folder / place).mkdir(exist_ok=True)
        (folder / place).chmod(0o700)
    for file in made:
        _write(folder / file.place, file)
    for place in reversed(places):  # last, because each file moved its folder's time
        newest = max(file.time for file in made if Path(file.place).is_relative_to(place))
        _set_time(folder / place, newest)
    agents = [file for file in made if Path(file.place).match("agent-*.jsonl")]
    sessions = [file for file in made if Path(file.place).match("projects/*/*.jsonl") and file not in agents]
    return Summary(len(sessions), len(agents), len(made), sum(len(file.data) for file in made))


def contents() -> list[File]:
    """Return every file of the demo, by place."""
    tides, books = project_tide.project(), project_ledger.project()
    others = [project_birds.project(), damaged.project()]
    made = [file for project in (tides, books, *others) for file in project_files(project)]
    made += side_files.files(tides, books, others)
    made.append(File(MARKER, _WORDS, f"{side_files.TODAY}T08:00:00.000Z"))
    return sorted(made)


def _check(folder: Path) -> None:
    if folder.is_symlink():
        raise Refused(f"a link, not a folder: `{folder}`", hint="name the folder itself, or a new one")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise Refused(f"not a folder: `{folder}`", hint="name a folder that is empty or does not exist")
    marker = folder / MARKER
    if any(folder.iterdir()) and (marker.is_symlink() or not marker.is_file()):
        raise Refused(f"not empty: `{folder}`", hint="name a folder that is empty or does not exist")


def _check_way(folders: list[Path], files: list[Path]) -> None:
    """In an older demo something else may stand where a file or folder has to go."""
    blocked = [path for path in folders if path.is_symlink() or (path.exists() and not path.is_dir())]
    blocked += [path for path in files if path.is_dir() and not path.is_symlink()]
    if blocked:
        raise Refused(f"in the way: `{blocked[0]}`", hint="write the demo to a new folder")


def _write(path: Path, file: File) -> None:
    """Write a file anew: what stood there may be a link, or have a second name elsewhere."""
    path.unlink(missing_ok=True)
    with path.open("xb") as output:
        os.fchmod(output.fileno(), 0o600)
        output.write(file.data)
    _set_time(path, file.time)


def _set_time(path: Path, time: str) -> None:
    milliseconds = round(datetime.fromisoformat(time).timestamp() * 1000)
    os.utime(path, ns=(milliseconds * 1_000_000, milliseconds * 1_000_000))
