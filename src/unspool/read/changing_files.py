"""Reads folders of small files that come and go, such as Claude Code's process registry (`sessions/<pid>.json`).

Rules
  1. Only regular files with a name of the right form are opened, never links. The `.key` files in the registry hold a
     token of Claude Code's own and are not even looked at.
  2. A file is read again only when it has changed.
  3. A registry file counts only if its name is the pid in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from unspool.errors import UnspoolError
from unspool.files import read_whole
from unspool.format.side_files import ProcessEntry, parse_object
from unspool.processes import is_registered_process
from unspool.read.source_tree import Stamp, stamp_of

MAX_REGISTRY_FILE = 256 * 1024
"""Real registry files have less than two thousand bytes."""
_MAX_REGISTRY_FILES = 2000
_REGISTRY_NAME = re.compile(r"([1-9][0-9]{0,9})\.json")

Parsed = TypeVar("Parsed")


class ChangingFiles(Generic[Parsed]):
    """The files of a folder whose names have one form, parsed."""

    def __init__(
        self,
        folder: Path,
        name: re.Pattern[str],
        parse: Callable[[Path, re.Match[str], Stamp], Parsed | None],
        limit: int | None = None,
    ) -> None:
        self._folder, self._name, self._parse, self._limit = folder, name, parse, limit
        self._known: dict[str, tuple[Stamp, Parsed | None]] = {}

    def read(self) -> dict[str, Parsed]:
        """Return the content of each file by name; those that say nothing are left out."""
        before, self._known = self._known, {}
        named = [(child, match) for child in list_folder(self._folder) if (match := self._name.fullmatch(child.name))]
        for child, match in named[: self._limit]:
            try:
                stamp = stamp_of(child.stat(follow_symlinks=False))
            except OSError:
                continue
            known = before.get(child.name)
            parsed = known[1] if known and known[0] == stamp else self._parse(Path(child.path), match, stamp)
            self._known[child.name] = (stamp, parsed)
        return {name: parsed for name, (_, parsed) in self._known.items() if parsed is not None}


def list_folder(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it cannot be read."""
    try:
        with os.scandir(folder) as listing:
            return list(listing)
    except OSError:
        return []


def registry_files(folder: Path) -> ChangingFiles[ProcessEntry]:
    """Return the process registry in a folder."""
    return ChangingFiles(folder, _REGISTRY_NAME, _parse_entry, _MAX_REGISTRY_FILES)


def is_running(entry: ProcessEntry) -> bool | None:
    """Tell whether the process of an entry runs; None if there is one that may be it."""
    if entry.pid is None:
        return False
    return is_registered_process(entry.pid, entry.proc_start, entry.started_at / 1000 if entry.started_at else None)


def _parse_entry(path: Path, name: re.Match[str], _: Stamp) -> ProcessEntry | None:
    try:
        process = parse_object(read_whole(path, MAX_REGISTRY_FILE), ProcessEntry)
    except (UnspoolError, msgspec.MsgspecError, OSError):
        return None  # being written, or not readable for us; the next read may succeed
    return process if process.pid == int(name[1]) else None
