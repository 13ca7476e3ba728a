"""Opens regular files for reading, safely.

Rules
  1. Only regular files are read: a FIFO, a socket or a device is refused without blocking on it.
  2. A symbolic link found inside a tree is not followed. One that the user names is: it was resolved first.
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

# O_NONBLOCK: opening a FIFO would wait for a writer.
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_GONE = "it may have been deleted: Claude Code removes sessions after 30 days unless told otherwise"
_ONE_FILE = "name one file that you may read"


@contextmanager
def open_regular(path: Path | str) -> Iterator[int]:
    """Open a regular file for reading; its descriptor is closed at the end."""
    descriptor, _ = open_with_status(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_with_status(path: Path | str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading; return its descriptor, which the caller closes, and its status."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no such file: `{path}`", hint=_GONE) from None
    except OSError as error:
        if Path(path).is_symlink():
            raise Refused(f"not following a link: `{path}`", hint="name the file it leads to") from None
        raise Unreadable(f"cannot read `{path}`: {error_reason(error)}", hint=_ONE_FILE) from None
    status = os.fstat(descriptor)  # of what was opened: the path may lead elsewhere by now
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
        data = b""  # read to the end: the file may grow meanwhile
        while piece := os.pread(descriptor, limit + 1 - len(data), len(data)):
            data += piece
        return data


def read_pieces(path: Path, piece: int = 1024 * 1024) -> Iterator[bytes]:
    """Yield the bytes of a regular file, a piece at a time."""
    with open_regular(path) as descriptor:
        reached = 0
        while data := os.pread(descriptor, piece, reached):
            reached += len(data)
            yield data


def error_reason(error: OSError) -> str:
    """Return the reason of an error in the system's words."""
    return (error.strerror or type(error).__name__).lower()
