"""The files of a folder and all folders in it: paths out, a folder at a time.

Rules
  1. No link is followed, and only regular files come out.
  2. A folder that cannot be read is passed over.
  3. It ends when it is told to, and when its time is up (`Late`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from unspool.client.tools.ignored import Ignores

OWN_FOLDERS = frozenset({".git", ".svn", ".hg", ".bzr", ".jj"})
"""What is in them is for the programs whose they are."""
_LARGEST_LIST = 1 << 20


class Late(Exception):
    """The time is up."""


class Stop:
    """Tells a walk in another thread when to end."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._told = threading.Event()

    def tell(self) -> None:
        """End it."""
        self._told.set()

    def check(self) -> None:
        """Raise `Late` if it should end."""
        if self._told.is_set() or time.monotonic() > self._deadline:
            raise Late


class Listed(NamedTuple):
    """A file."""

    path: str
    """Relative to the folder that was asked for, with `/`."""
    entry: os.DirEntry[str]
    is_ignored: bool


def walk(root: Path, stop: Stop, ignores: Ignores | None, passes: Callable[[str], bool]) -> Iterator[Listed]:
    """Yield the files of a folder by name. Without ignores, what `.gitignore` says does not matter.

    A folder that is ignored, or for which `passes` is true, is passed over.
    """
    base = f"{root.as_posix().rstrip('/')}/"
    waiting = [_inside(root, "", ignores)]
    while waiting:
        inside = next(waiting[-1], None)
        if inside is None:
            waiting.pop()
            stop.check()
            continue
        path, entry, known = inside
        if entry.is_dir(follow_symlinks=False):
            if not passes(path) and not (known and known.ignores(base + path, is_folder=True)):
                waiting.append(_inside(root, f"{path}/", known))
        elif entry.is_file(follow_symlinks=False):
            yield Listed(path, entry, bool(known and known.ignores(base + path, is_folder=False)))


def _inside(root: Path, folder: str, ignores: Ignores | None) -> Iterator[tuple[str, os.DirEntry[str], Ignores | None]]:
    entries: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(root / folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    if ignores is not None and any(entry.name == ".gitignore" for entry in entries):
        ignores = ignores.and_in(f"{(root / folder).as_posix().rstrip('/')}/", _text(root / folder / ".gitignore"))
    for entry in entries:
        yield folder + entry.name, entry, ignores


def ignores_above(root: Path) -> Ignores | None:
    """Return what the folders above say, up to where the repository begins; None if there is none."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if top is None:
        return None
    ignores = Ignores()
    for folder in reversed(root.parents):
        if folder.is_relative_to(top):
            ignores = ignores.and_in(f"{folder.as_posix().rstrip('/')}/", _text(folder / ".gitignore"))
    return ignores


def _text(path: Path) -> str:
    try:
        if path.stat().st_size <= _LARGEST_LIST and path.is_file():
            return path.read_text("utf-8", "replace")
    except OSError:
        pass
    return ""
