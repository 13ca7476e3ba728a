"""Reads the branch of a working folder from `.git/HEAD`, without git.

Rules
  1. `.git` is a folder, or in a worktree or submodule a file that names one (`gitdir: …`). The folder may be any above.
  2. Nothing is run, and only regular files are read, a few hundred bytes of each: the folder is untrusted.
"""

from __future__ import annotations

import os
import stat

from unspool.display import clean_line

_MAX_BYTES = 4096
_MAX_NAME = 60
_MAX_LEVELS = 64
_REF = "ref: refs/heads/"
_SHORT_HASH = 7


def read_branch(folder: str) -> str | None:
    """Return the branch that a folder is on, the beginning of the commit if it is on none; None outside of git."""
    place = os.path.abspath(folder)
    for _ in range(_MAX_LEVELS):
        text = _read_head(f"{place.rstrip('/')}/.git")
        if text is not None:
            return _parse_head(text)
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


def _parse_head(head: str) -> str | None:
    line = head.partition("\n")[0].strip()
    if line.startswith(_REF):
        return clean_line(line.removeprefix(_REF))[:_MAX_NAME] or None
    is_hash = len(line) >= 40 and all(digit in "0123456789abcdef" for digit in line)
    return line[:_SHORT_HASH] if is_hash else None


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
