"""Creates, replaces and removes files atomically. The only place that writes inside a config folder.

Rules
  1. A file appears whole or not at all: it is written beside its place, flushed, and then given its name. A
     failure leaves nothing of it.
  2. A new file never overwrites one that is there: its name is given with `link`, which fails then.
  3. Files and folders are for the user alone (0600, 0700). No link on the way is followed out of the folder.
  4. A file is replaced or removed only if it still holds the bytes that its reader saw. It keeps its permissions, and
     what it held before can be kept beside it. A link that the user has put in its place stays: what it leads to is
     replaced, if the user confirmed that to the caller.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from unspool.errors import Refused, Unreadable
from unspool.files.open import make_folder, raise_unwritable, read_start

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_NOT_FLUSHABLE = frozenset({errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP})
"""Errors of systems and folders that cannot be flushed; the name is given all the same."""


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file, or replace one, by a rename: others see the old content or the new one, also after a crash."""
    with temporary_file(path) as (beside, descriptor):
        os.fchmod(descriptor, mode)
        write_flushed(descriptor, [data])
        beside.replace(path)
    flush_folder(path.parent)


def create_atomically(path: Path, pieces: Iterable[bytes], mode: int = 0o600) -> int:
    """Write a file whose name must not exist (`FileExistsError`); return its number of bytes."""
    with temporary_file(path) as (beside, descriptor):
        os.fchmod(descriptor, mode)
        written = write_flushed(descriptor, pieces)
        os.link(beside, path)  # not `replace`, which would overwrite
    flush_folder(path.parent)
    return written


@contextmanager
def temporary_file(path: Path, mode: int = 0o600, folder: int | None = None) -> Iterator[tuple[Path, int]]:
    """Create a file beside a path, and yield its path and descriptor; at the end it is removed, unless renamed.

    With the descriptor of an open `folder`, paths are relative to that.
    """
    # Random, not the process id: two containers with one home folder may both have that. A name has 255 bytes at most.
    # Not `secrets`, which loads `hashlib` and `random`: 5 ms of a command that takes 60.
    beside = path.with_name(f".{path.name[:50]}.{os.urandom(8).hex()}.tmp")
    descriptor = os.open(beside, _CREATE_FLAGS | os.O_EXCL, mode, dir_fd=folder)
    try:
        yield beside, descriptor
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)


def write_durably(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file that nobody reads yet, and flush it: the caller gives it its name, or names it elsewhere."""
    # A file of this name is left over from a process that was killed. O_EXCL: a link that somebody puts in its place
    # must not make us overwrite another file.
    with suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, _CREATE_FLAGS | os.O_EXCL, 0o600)
    try:
        os.fchmod(descriptor, mode)
        write_flushed(descriptor, [data])
    finally:
        os.close(descriptor)


def write_flushed(descriptor: int, pieces: Iterable[bytes]) -> int:
    """Write bytes to an open file and flush them to the disk; return their number."""
    written = 0
    for piece in pieces:
        view = memoryview(piece)
        while view:
            view = view[os.write(descriptor, view) :]
        written += len(piece)
    os.fsync(descriptor)
    return written


def flush(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    # A pipe in its place would be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """Flush a folder, so that a new name in it is as durable as the bytes, where the system can do that."""
    try:
        flush(folder)
    except OSError as error:
        if error.errno not in _NOT_FLUSHABLE:
            raise


def write_new(path: Path, pieces: Iterable[bytes], *, within: Path) -> int:
    """Write a file that does not exist yet, and its folders; return its number of bytes."""
    if os.path.lexists(path):
        raise Refused(f"`{path}` already exists", hint="nothing was written; move or delete the file first")
    with raise_unwritable(f"cannot write `{path}`"):
        if not path.parent.resolve().is_relative_to(within.resolve()):
            raise Refused(
                f"`{path}` is outside `{within}`", hint="remove the symbolic link that points out of the folder"
            )
        make_folder(path.parent)
        return _create(path, pieces)


class FileSnapshot(NamedTuple):
    """A file as its reader saw it: real path and bytes."""

    path: Path
    """Its path with links resolved."""
    data: bytes | None
    """None if there is no file."""
    is_link: bool = False
    """Whether links on the way lead out of the folder."""


def read_current(path: Path, *, within: Path, limit: int = 16 * 1024 * 1024) -> FileSnapshot:
    """Read a file that may be replaced later: its bytes, and its real path."""
    try:
        place = path.resolve(strict=os.path.lexists(path))
        is_link = not place.is_relative_to(within.resolve())
        data = read_start(place, limit + 1) if place.exists() else None
    except (OSError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or "broken symbolic link").lower()
        raise Unreadable(f"cannot read `{path}`: {reason}") from None
    if data is not None and len(data) > limit:
        raise Unreadable(f"`{place}` is too large to change")
    return FileSnapshot(place, data, is_link)


def replace_file(before: FileSnapshot, data: bytes, *, backup: Path | None = None) -> None:
    """Replace the bytes of a file that is unchanged; keep the old ones in `backup`, if there is none yet."""
    path = before.path
    with raise_unwritable(f"cannot write `{path}`"):
        make_folder(path.parent)
        if before.data is None:
            _create(path, [data])
            return
        mode = stat.S_IMODE(path.stat().st_mode)
        if backup is not None and not os.path.lexists(backup):
            _create(backup, [before.data], mode)
        with temporary_file(path) as (beside, descriptor):
            os.fchmod(descriptor, mode)
            write_flushed(descriptor, [data])
            # As late as possible: somebody may change the file while the new one is written.
            _assert_unchanged(before)
            beside.replace(path)
        flush_folder(path.parent)


def remove_file(before: FileSnapshot) -> None:
    """Remove a file that is unchanged."""
    with raise_unwritable(f"cannot remove `{before.path}`"):
        _assert_unchanged(before)
        before.path.unlink()
        flush_folder(before.path.parent)


def _assert_unchanged(before: FileSnapshot) -> None:
    if before.data is None or read_start(before.path, len(before.data) + 1) != before.data:
        raise Refused(f"`{before.path}` changed during the write", hint="nothing was written; try again")


def _create(path: Path, pieces: Iterable[bytes], mode: int = 0o600) -> int:
    try:
        return create_atomically(path, pieces, mode)
    except FileExistsError:
        raise Refused(f"another process created `{path}`", hint="nothing was overwritten; try again") from None
