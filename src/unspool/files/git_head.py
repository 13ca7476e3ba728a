"""Finds what a working folder has checked out, from `.git/HEAD` and without git.

Rules
  1. `.git` is a folder, or in a worktree or submodule a file that names one (`gitdir: …`). The folder may be any above.
  2. Nothing is run, and only regular files are read, a few kilobytes of each: the folder is untrusted.

Without `pathlib` (4 ms): the status line must start fast.
"""

from __future__ import annotations

import os
import stat

_MAX_BYTES = 4096
_MAX_LEVELS = 64
_BRANCH = "ref: refs/heads/"


def read_git_head(folder: str) -> tuple[str | None, str] | None:
    """Return the branch of a folder and the first line of HEAD; no branch if it is on none; None outside of git."""
    place = os.path.abspath(folder)
    for _ in range(_MAX_LEVELS):
        head = _read_head(f"{place.rstrip('/')}/.git")
        if head is not None:
            line = head.partition("\n")[0].strip()
            return line.removeprefix(_BRANCH) if line.startswith(_BRANCH) else None, line
        parent = os.path.dirname(place)
        if parent == place:
            return None
        place = parent
    return None


def _read_head(git: str) -> str | None:
    """Return the content of HEAD, given a `.git`; None if that is none."""
    head = _read_start(f"{git}/HEAD")
    if head is not None:
        return head
    link = _read_start(git)
    if link is None or not link.startswith("gitdir:"):
        return None
    target = link.removeprefix("gitdir:").strip()
    # A relative path is relative to the folder of the `.git` file.
    return _read_start(f"{os.path.join(os.path.dirname(git), target)}/HEAD")


def _read_start(path: str) -> str | None:
    """Return the beginning of a regular file; None if it is none."""
    try:
        # O_NONBLOCK: opening a named pipe would wait for somebody who writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, _MAX_BYTES).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)
