"""Versions of files: a session in, each file it changed as it was before, version by version, out.

At each prompt, and before a file is changed for the first time, Claude Code keeps a copy of it in
`<config>/file-history/<session>/` and says so in the session's file. Every such line repeats what was said before.

Rules
  1. The lines say which versions there are; the copies may be gone all the same.
  2. Names and ids came out of a file: each becomes part of a path only as a plain name (`paths.inside`), and links are
     not followed.
  3. A session that was resumed or forked may name copies of the session it came from: its own folder is looked at
     first, then those of the sessions whose ids its lines carry.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unspool.display.safe import clean_line
from unspool.errors import NotFound, Refused, Unreadable
from unspool.files.open import MAX_SIDE_FILE, read_whole
from unspool.format.meta_records import Backup, FileHistoryDelta, FileHistorySnapshot
from unspool.home import Session
from unspool.paths import inside

LARGEST = 8 * 1024 * 1024
"""Bytes of a version that is still compared: the time it takes grows faster than the file."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NUMBERED = re.compile(r".*@v([0-9]{1,9})", re.DOTALL)


class Version(NamedTuple):
    """A file as it was at some time."""

    path: str
    """As the session names it: mostly relative to the folder it worked in."""
    number: int
    name: str | None
    """The name of the copy; None: the file did not exist."""
    time: str | None


def versions(session: Session) -> dict[str, list[Version]]:
    """Return the versions of each file, by number; the files in the order in which they were first changed."""
    found: dict[str, dict[tuple[int, str | None], Version]] = {}
    for path, backup in _backups(session):
        number = _number(backup)
        if number is not None:
            version = Version(path, number, backup.backup_file_name, backup.backup_time)
            found.setdefault(path, {}).setdefault((number, version.name), version)
    return {path: sorted(known.values(), key=lambda version: version.number) for path, known in found.items()}


def backup_path(session: Session, version: Version) -> Path | None:
    """Return where the copy of a version lies; None if it is gone or there never was one."""
    if version.name is None:
        return None
    paths = (inside(folder, version.name) for folder in _folders(session))
    return next((path for path in paths if os.path.lexists(path)), None)


def size(session: Session, version: Version) -> int | None:
    """Return how many bytes a version has; None if there is no copy that can be read."""
    try:
        path = backup_path(session, version)
        status = path.lstat() if path else None
    except (Refused, OSError):  # not a plain name; gone since it was found
        return None
    return status.st_size if status and stat.S_ISREG(status.st_mode) else None


def content(session: Session, version: Version) -> bytes:
    """Return the bytes of a version."""
    label = f"`{version.path}@v{version.number}`"
    if version.name is None:
        raise NotFound(f"the file did not exist then: {label}", hint="a later version may have something in it")
    path = backup_path(session, version)
    if path is None:
        hint = "Claude Code removes old ones; `--file` without a version tells which are left"
        raise NotFound(f"the copy is gone: {label}", hint=hint)
    return read_whole(path, MAX_SIDE_FILE)


def label(version: Version) -> str:
    """Return what a version is called."""
    return f"{version.path}@v{version.number}"


def about(session: Session, version: Version) -> dict[str, Any]:
    """Return what is known of a version, as JSON has it."""
    length = size(session, version)
    return {
        "file": version.path,
        "version": version.number,
        "time": version.time,
        "name": version.name,
        "bytes": length,
        "copy": "none" if version.name is None else "gone" if length is None else "present",
    }


def difference(session: Session, old: Version, new: Version) -> str:
    """Return a unified diff, empty if there is none; a file that did not exist is empty.

    Bytes that are no text are kept as surrogates.
    """
    import difflib

    texts = [b"" if version.name is None else content(session, version) for version in (old, new)]
    names = [clean_line(label(version)) for version in (old, new)]
    if texts[0] == texts[1]:
        return ""
    if any(b"\0" in text for text in texts):
        return f"binary files {names[0]} and {names[1]} differ\n"
    if max(map(len, texts)) > LARGEST:
        raise Unreadable(f"too large to compare: `{new.path}`", hint="`-o FILE` writes a version, for another program")
    before, after = (_LINE.findall(text.decode("utf-8", "surrogateescape")) for text in texts)
    times = [clean_line(version.time or "") for version in (old, new)]
    told = difflib.unified_diff(before, after, names[0], names[1], times[0], times[1])
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in told)


def _backups(session: Session) -> Iterator[tuple[str, Backup]]:
    for entry in session.entries:
        match entry.record:
            case FileHistorySnapshot(snapshot=snapshot):
                yield from snapshot.tracked_file_backups.items()
            case FileHistoryDelta(tracking_path=str() as path, backup=Backup() as backup):
                yield path, backup
            case _:
                pass


def _number(backup: Backup) -> int | None:
    if backup.version is not None:
        return backup.version
    match = _NUMBERED.fullmatch(backup.backup_file_name or "")
    return int(match[1]) if match else None


def _folders(session: Session) -> Iterator[Path]:
    """Yield where the copies of a session may lie, its own folder first; none if it is in no config folder."""
    projects = next((folder for folder in session.path.parents if folder.name == "projects"), None)
    if projects is None:
        return
    place = projects.parent / "file-history"
    own = session.source.session_id or session.id
    if _is_folder(place, own):
        yield place / own
    for id in dict.fromkeys(entry.record.session_id for entry in session.entries):
        if id is not None and id != own and _is_folder(place, id):
            yield place / id


def _is_folder(place: Path, name: str) -> bool:
    try:
        return all(stat.S_ISDIR(one.lstat().st_mode) for one in (place, inside(place, name)))
    except (Refused, OSError, ValueError):  # not a plain name, or no such folder
        return False
