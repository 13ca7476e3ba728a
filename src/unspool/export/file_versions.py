"""Finds and reads the versions of files that Claude Code kept before a session changed them.

At each prompt, and before a file is changed for the first time, Claude Code keeps a copy of it in
`<config>/file-history/<session>/` and writes a line about it. Every such line repeats the versions before.

Rules
  1. The lines name the versions; the copies may be gone all the same.
  2. Names and ids come from a file: each becomes part of a path only as a plain name (`paths.join_names`), and links
     are not followed.
  3. A session that was resumed or forked may name copies of the session it came from: its own folder is searched
     first, then those of the sessions whose ids its lines carry.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unspool.display import clean_line
from unspool.errors import NotFound, Refused, Unreadable
from unspool.files import MAX_SIDE_FILE, read_whole
from unspool.format import Backup, FileHistoryDelta, FileHistorySnapshot
from unspool.home import Session
from unspool.paths import join_names

MAX_COMPARED_BYTES = 8 * 1024 * 1024
"""Larger versions are not compared: the time it takes grows faster than the file."""

# Not `splitlines`: a form feed or U+2028 ends no line of a diff.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NUMBERED = re.compile(r".*@v([0-9]{1,9})", re.DOTALL)


class FileHistoryVersion(NamedTuple):
    """One version of a file that a session changed."""

    path: str
    """As the session names it: mostly relative to its working folder."""
    number: int
    name: str | None
    """The name of the copy; None: the file did not exist."""
    time: str | None


def find_versions(session: Session) -> dict[str, list[FileHistoryVersion]]:
    """Return the versions of each file, by number; the files in the order in which they were first changed."""
    by_path: dict[str, dict[tuple[int, str | None], FileHistoryVersion]] = {}
    for path, backup in _backups(session):
        number = _version_number(backup)
        if number is not None:
            version = FileHistoryVersion(path, number, backup.backup_file_name, backup.backup_time)
            # Every line repeats the versions before it: the first mention counts.
            by_path.setdefault(path, {}).setdefault((number, version.name), version)
    return {path: sorted(known.values(), key=lambda version: version.number) for path, known in by_path.items()}


def find_backup(session: Session, version: FileHistoryVersion) -> Path | None:
    """Return the path of the copy of a version; None if it is gone or there never was one."""
    if version.name is None:
        return None
    paths = (join_names(folder, version.name) for folder in _find_folders(session))
    return next((path for path in paths if os.path.lexists(path)), None)


def version_size(session: Session, version: FileHistoryVersion) -> int | None:
    """Return how many bytes a version has; None if there is no copy that can be read."""
    try:
        path = find_backup(session, version)
        status = path.lstat() if path else None  # not `stat`: links are not followed (rule 2)
    except (Refused, OSError):  # not a plain name; gone since it was found
        return None
    return status.st_size if status and stat.S_ISREG(status.st_mode) else None


def read_version(session: Session, version: FileHistoryVersion) -> bytes:
    """Return the bytes of a version."""
    label = f"`{version_label(version)}`"
    if version.name is None:
        raise NotFound(f"the file did not exist in {label}", hint="try a later version")
    path = find_backup(session, version)
    if path is None:
        hint = "Claude Code deletes old copies; list the remaining ones with `--file` without a version"
        raise NotFound(f"the copy of {label} was deleted", hint=hint)
    return read_whole(path, MAX_SIDE_FILE)


def version_label(version: FileHistoryVersion) -> str:
    """Return the name of a version, as `--file` takes it."""
    return f"{version.path}@v{version.number}"


def version_to_json(session: Session, version: FileHistoryVersion) -> dict[str, Any]:
    """Return a version as JSON data."""
    length = version_size(session, version)
    return {
        "file": version.path,
        "version": version.number,
        "time": version.time,
        "name": version.name,
        "bytes": length,
        "copy": "none" if version.name is None else "gone" if length is None else "present",
    }


def diff_versions(session: Session, old: FileHistoryVersion, new: FileHistoryVersion) -> str:
    """Return a unified diff, empty if there is none; a file that did not exist is empty.

    Bytes that are no text are kept as surrogates.
    """
    import difflib  # start-up: only a comparison needs it

    texts = [b"" if version.name is None else read_version(session, version) for version in (old, new)]
    # Paths and times come from a file: control characters in them must not reach the terminal.
    names = [clean_line(version_label(version)) for version in (old, new)]
    if texts[0] == texts[1]:
        return ""
    if any(b"\0" in text for text in texts):
        return f"binary files {names[0]} and {names[1]} differ\n"
    if max(map(len, texts)) > MAX_COMPARED_BYTES:
        raise Unreadable(
            f"too large to compare: `{new.path}`",
            hint="write a version with `-o FILE` and compare it with another program",
        )
    before, after = (_LINE.findall(text.decode("utf-8", "surrogateescape")) for text in texts)
    times = [clean_line(version.time or "") for version in (old, new)]
    lines = difflib.unified_diff(before, after, names[0], names[1], times[0], times[1])
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _backups(session: Session) -> Iterator[tuple[str, Backup]]:
    for entry in session.entries:
        match entry.record:
            case FileHistorySnapshot(snapshot=snapshot):
                yield from snapshot.tracked_file_backups.items()
            case FileHistoryDelta(tracking_path=str() as path, backup=Backup() as backup):
                yield path, backup
            case _:
                pass


def _version_number(backup: Backup) -> int | None:
    if backup.version is not None:
        return backup.version
    match = _NUMBERED.fullmatch(backup.backup_file_name or "")
    return int(match[1]) if match else None


def _find_folders(session: Session) -> Iterator[Path]:
    """Yield the folders that may have the copies, the session's own first; none outside a config folder."""
    projects = next((folder for folder in session.path.parents if folder.name == "projects"), None)
    if projects is None:
        return
    history = projects.parent / "file-history"
    own = session.source.session_id or session.id
    if _is_folder(history, own):
        yield history / own
    for id in dict.fromkeys(entry.record.session_id for entry in session.entries):
        if id is not None and id != own and _is_folder(history, id):
            yield history / id


def _is_folder(parent: Path, name: str) -> bool:
    try:
        return all(stat.S_ISDIR(path.lstat().st_mode) for path in (parent, join_names(parent, name)))
    except (Refused, OSError, ValueError):  # not a plain name, or no such folder
        return False
