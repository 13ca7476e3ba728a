"""Walk the files of a folder and of all folders in it, with the `.gitignore` files on the way.

Rules
  1. No link is followed, and only regular files are returned.
  2. A folder that cannot be read is skipped.
  3. The walk ends when it is told to, and when its time is up (`SearchTimedOut`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from unspool.client.tools.content.glob_patterns import IgnoreRules

VERSION_CONTROL_FOLDERS = frozenset({".git", ".svn", ".hg", ".bzr", ".jj"})
"""Their files are for the version control programs, and no search looks into them."""
_MAX_IGNORE_FILE = 1 << 20


class SearchTimedOut(Exception):
    """The time of a search is up."""


class StopSignal:
    """Ends a search that runs in another thread: at a deadline, or when it is told to."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the search at its next check."""
        self._stopped.set()

    def check(self) -> None:
        """Raise `SearchTimedOut` if the search should end."""
        if self._stopped.is_set() or time.monotonic() > self._deadline:
            raise SearchTimedOut


class WalkedFile(NamedTuple):
    """A file that a walk came by."""

    path: str
    """Relative to the root of the walk, with `/`."""
    entry: os.DirEntry[str]
    is_ignored: bool


def walk_files(
    root: Path, stop: StopSignal, ignores: IgnoreRules | None, skips: Callable[[str], bool]
) -> Iterator[WalkedFile]:
    """Yield the files of a folder by name. Without ignore rules, `.gitignore` files do not matter.

    A folder that is ignored, or for which `skips` is true, is not entered.
    """
    base = _with_slash(root)
    # A stack of open folders, not recursion: a tree may be deeper than Python's stack.
    folders = [_list_folder(root, "", ignores)]
    while folders:
        item = next(folders[-1], None)
        if item is None:
            folders.pop()
            stop.check()
            continue
        path, entry, known = item
        if entry.is_dir(follow_symlinks=False):
            if not skips(path) and not (known and known.is_ignored(base + path, is_folder=True)):
                folders.append(_list_folder(root, f"{path}/", known))
        elif entry.is_file(follow_symlinks=False):
            yield WalkedFile(path, entry, bool(known and known.is_ignored(base + path, is_folder=False)))


def _list_folder(
    root: Path, folder: str, ignores: IgnoreRules | None
) -> Iterator[tuple[str, os.DirEntry[str], IgnoreRules | None]]:
    entries: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(root / folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    if ignores is not None and any(entry.name == ".gitignore" for entry in entries):
        ignores = _add_ignore_file(ignores, root / folder)
    for entry in entries:
        yield folder + entry.name, entry, ignores


def load_ignore_rules_above(root: Path) -> IgnoreRules | None:
    """Return the ignore rules of the folders above, up to the top of the repository; None if there is no repository."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if top is None:
        return None
    ignores = IgnoreRules()
    for folder in reversed(root.parents):
        if folder.is_relative_to(top):
            ignores = _add_ignore_file(ignores, folder)
    return ignores


def _add_ignore_file(ignores: IgnoreRules, folder: Path) -> IgnoreRules:
    path = folder / ".gitignore"
    try:
        if path.stat().st_size <= _MAX_IGNORE_FILE and path.is_file():
            return ignores.add_file(_with_slash(folder), path.read_text("utf-8", "replace"))
    except OSError:
        pass
    return ignores


def _with_slash(folder: Path) -> str:
    return f"{folder.as_posix().rstrip('/')}/"
