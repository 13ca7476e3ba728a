"""Opens regular files for reading, makes folders for the user alone, and names what the system refuses.

Rules
  1. Only regular files are read: a FIFO, a socket or a device is refused without blocking on it.
  2. A symbolic link found inside a tree is not followed. One that the user names is: it was resolved first.
  3. Here is only what every command loads; what writes files is in `atomic.py`.
  4. A file is read up to the size that it had when it was opened: one that grows faster than it is read has no end.
  5. A sparse file is read up to its first hole. A file of 100 GB can take no room on the disk, and reading its zeros
     would take minutes. Files with less than `MAX_HOLES` bytes of holes are read as any other.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unspool.errors import NotFound, Refused, Unreadable, UnspoolError, Unwritable

MAX_SIDE_FILE = 64 * 1024 * 1024
"""Larger side files are not read whole."""

MAX_HOLES = 1024**3
"""Bytes of holes from which on a file is sparse (rule 5)."""
_SMALLEST_HOLE = 64 * 1024
"""Bytes of the smallest hole that ends the reading of a sparse file."""
_MAX_EXTENTS = 10_000
_LARGEST = 2**63 - 1
"""The largest signed number of 64 bits."""

# O_NONBLOCK: opening a FIFO would wait for a writer.
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_GONE = "list sessions with `unspool ls`; Claude Code deletes sessions after 30 days by default"
_ONE_FILE = "name a regular file"


@contextmanager
def open_regular(path: Path | str) -> Iterator[int]:
    """Open a regular file for reading; its descriptor is closed at the end."""
    descriptor, _ = open_with_status(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def file_identity(status: os.stat_result) -> tuple[int, int]:
    """Return the device and the inode of a file, as signed numbers of 64 bits: SQLite has no others.

    Some network file systems have inodes that use all 64 bits.
    """
    return _to_signed(status.st_dev), _to_signed(status.st_ino)


def modified_time(status: os.stat_result) -> int:
    """Return when a file was changed, in nanoseconds: in the years 1677 to 2262, which 64 bits can tell apart."""
    return max(-_LARGEST, min(status.st_mtime_ns, _LARGEST))


def _to_signed(number: int) -> int:
    return number if number <= _LARGEST else number - 2**64


def open_with_status(path: Path | str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading; return its descriptor, which the caller closes, and its status."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"file not found: `{path}`", hint=_GONE, reason="no such file") from None
    except OSError as error:
        if os.path.islink(path):  # noqa: PTH114  `Path.is_symlink` raises where the folder may not be searched
            hint = "name the target of the link"
            raise Refused(
                f"`{path}` is a symbolic link, which unspool does not follow here",
                hint=hint,
                reason="symbolic link, not followed",
            ) from None
        reason = error_reason(error)
        raise Unreadable(f"cannot read `{path}`: {reason}", hint=_ONE_FILE, reason=reason) from None
    status = os.fstat(descriptor)  # of what was opened: the path may lead elsewhere by now
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise Unreadable(f"`{path}` is not a regular file", hint=_ONE_FILE, reason="not a regular file")
    return descriptor, status


def data_end(descriptor: int, status: os.stat_result) -> int:
    """Return up to where an open file is to be read: to its size, or to the first hole of a sparse file (rule 5)."""
    size = status.st_size
    if size - status.st_blocks * 512 <= MAX_HOLES:
        return size
    # On compressed file systems a file without holes has few blocks too: only the file system knows where holes are.
    reached = 0
    try:
        for _ in range(_MAX_EXTENTS):
            hole = os.lseek(descriptor, reached, os.SEEK_HOLE)
            if hole >= size:
                return size
            reached = _next_data(descriptor, hole, size)
            if reached - hole >= _SMALLEST_HOLE:
                return hole
    except OSError:  # a file system that does not know; then the longest line is the limit
        return size
    return reached


def _next_data(descriptor: int, hole: int, size: int) -> int:
    try:
        return os.lseek(descriptor, hole, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # no data up to the end
            return size
        raise


def unread_reason(path: Path | str, status: os.stat_result) -> str | None:
    """Return why a file is not read to its end, from its status; None if it is. Most files cost nothing."""
    if status.st_size - status.st_blocks * 512 <= MAX_HOLES:
        return None
    try:
        descriptor, status = open_with_status(path)
    except UnspoolError:  # the reader of the file will say so
        return None
    try:
        end = data_end(descriptor, status)
    finally:
        os.close(descriptor)
    return None if end == status.st_size else sparse_reason(end, status.st_size)


def sparse_reason(end: int, size: int) -> str:
    """Return the words for a sparse file that is read up to an offset."""
    return f"read only up to byte {end:,} of {size:,}: the rest is a hole (sparse file)"


def read_whole(path: Path, limit: int) -> bytes:
    """Return all bytes of a small file; one larger than `limit` is refused."""
    with open_regular(path) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > limit:
            reason = describe_too_large(size)
            raise Unreadable(f"{reason}: `{path}`", reason=reason)
        data = b""  # read to the end: the file may grow meanwhile
        while piece := read_at(descriptor, len(data), limit + 1 - len(data), path):
            data += piece
        return data


def read_private(path: Path, limit: int, content: str) -> bytes:
    """Return all bytes of a small file with a secret; `Refused` if others can read it. `content` says what it has."""
    data = read_whole(path, limit)
    if path.stat().st_mode & 0o077:
        raise Refused(f"other users can read `{path}`, which contains {content}", hint=f"run `chmod 600 {path}`")
    return data


def describe_too_large(size: int) -> str:
    """Return why a side file of so many bytes is not read."""
    return f"too large to read at once ({size:,} bytes)"


def read_start(path: Path, length: int) -> bytes:
    """Return the first bytes of a regular file, at most `length`."""
    with open_regular(path) as descriptor:
        data = b""
        while piece := read_at(descriptor, len(data), length - len(data), path):
            data += piece
    return data


def read_pieces(path: Path, piece: int = 1024 * 1024) -> Iterator[bytes]:
    """Yield all bytes of a regular file, a piece at a time; a sparse file, which would be endless, is refused."""
    descriptor, status = open_with_status(path)
    try:
        end = data_end(descriptor, status)
        if end < status.st_size:
            reason = sparse_reason(end, status.st_size)
            hint = f"remove the hole and everything after it with `truncate -s {end} FILE`"
            raise Unreadable(f"cannot read all of `{path}`: {reason}", hint=hint, reason=reason)
        reached = 0
        while reached < end and (data := read_at(descriptor, reached, min(piece, end - reached), path)):
            reached += len(data)
            yield data
    finally:
        os.close(descriptor)


def read_at(file: int, offset: int, length: int, path: Path | str) -> bytes:
    """Read bytes of an open file; the path is for the error message."""
    try:
        return os.pread(file, length, offset)
    except OSError as error:
        reason = error_reason(error)
        raise Unreadable(f"cannot read `{path}`: {reason}", reason=reason) from None


def error_reason(error: OSError) -> str:
    """Return the reason of an error in the system's words."""
    return (error.strerror or type(error).__name__).lower()


@contextmanager
def raise_unwritable(action: str, hint: str | None = None) -> Iterator[None]:
    """Turn an `OSError` into an `Unwritable` that names what could not be done, and why."""
    try:
        yield
    except OSError as error:
        raise Unwritable(f"{action}: {error_reason(error)}", hint=hint) from None


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, each for the user alone."""
    if folder.is_dir():
        return
    # Not `parents=True`: that gives the mode to the last folder only.
    if not os.path.lexists(folder.parent):
        make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def make_data_folder(folder: Path) -> None:
    """Make unspool's data folder, for the user alone; one that others can enter is closed to them."""
    make_folder(folder)
    status = folder.stat()
    if status.st_mode & 0o077 and status.st_uid == os.geteuid():
        # Version 0.1 made it by the umask when an edit was the first command.
        folder.chmod(0o700)


def create_private_file(folder: Path, name: str) -> Path:
    """Create a file in the data folder that only its owner may read, if there is none; return its path."""
    path = folder / name
    with raise_unwritable(f"cannot write `{path}`", "set `$UNSPOOL_HOME` to use another folder"):
        make_data_folder(folder)
        path.touch(mode=0o600)
    return path
