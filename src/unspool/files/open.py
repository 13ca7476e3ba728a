"""Opening what a name leads to, safely.

Rules
  1. Only regular files are read: a FIFO, a socket or a device is refused without blocking on it.
  2. A symbolic link found inside a tree is not followed. One that a person names is: it was resolved first.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unspool.errors import NotFound, Refused, Unreadable

MAX_SIDE_FILE = 64 * 1024 * 1024
"""Larger side files are not read whole."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_GONE = "it may have been deleted: Claude Code removes sessions after 30 days unless told otherwise"
_ONE_FILE = "name one file that you may read"


@contextmanager
def open_regular(path: Path | str) -> Iterator[int]:
    """Open a regular file for reading; the file descriptor is closed at the end."""
    descriptor, _ = regular(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def regular(path: Path | str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading; return the file descriptor, which is the caller's to close, and what it is."""
    try:
        descriptor = os.open(path, _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no such file: `{path}`", hint=_GONE) from None
    except OSError as error:
        if Path(path).is_symlink():
            raise Refused(f"not following a link: `{path}`", hint="name the file it leads to") from None
        raise Unreadable(f"cannot read `{path}`: {reason(error)}", hint=_ONE_FILE) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Unreadable(f"not a regular file: `{path}`", hint=_ONE_FILE)
    return descriptor, status


def read_whole(path: Path, limit: int) -> bytes:
    """Return all bytes of a small file; one larger than `limit` is refused."""
    with open_regular(path) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise Unreadable(f"too large to read whole ({size:,} bytes): `{path}`")
        data = b""
        while piece := os.pread(descriptor, limit + 1 - len(data), len(data)):
            data += piece
        return data


def pieces_of(path: Path, piece: int = 1024 * 1024) -> Iterator[bytes]:
    """Yield the bytes of a file, a piece at a time."""
    with open_regular(path) as descriptor:
        reached = 0
        while data := os.pread(descriptor, piece, reached):
            reached += len(data)
            yield data


def reason(error: OSError) -> str:
    """Return why something cannot be read, in the system's words."""
    return (error.strerror or type(error).__name__).lower()
