"""Creates, replaces and removes files atomically. The only place that writes inside a config folder.

Rules
  1. A file appears whole or not at all: it is written beside its place, flushed, and then given its name.
  2. A new file never overwrites one that is there: its name is given with `link`, which fails then.
  3. Files and folders are for the user alone (0600, 0700). No link on the way is followed out of the folder.
  4. A file is replaced or removed only if it still holds the bytes that its reader saw. It keeps its permissions, and
     what it held before can be kept beside it. A link that the user has put in its place stays: what it leads to is
     replaced, if the user confirmed that to the caller.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from unspool.errors import Refused, Unreadable, Unwritable
from unspool.files.open import open_regular


def write_new(path: Path, pieces: Iterable[bytes], *, within: Path) -> int:
    """Write a file that does not exist yet, and its folders; return its number of bytes."""
    if os.path.lexists(path):
        raise Refused(f"`{path}` is there already", hint="nothing was written; move it away first if it is another one")
    try:
        if not path.parent.resolve().is_relative_to(within.resolve()):
            raise Refused(f"`{path}` would lie outside `{within}`", hint="a link leads out of the folder")
        _make_folder(path.parent)
        return _write(path, pieces)
    except OSError as error:
        raise Unwritable(f"cannot write `{path}`: {(error.strerror or 'no reason given').lower()}") from None


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
        data = _read_bytes(place, limit) if place.exists() else None
    except (OSError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or "a link that leads nowhere").lower()
        raise Unreadable(f"cannot read `{path}`: {reason}") from None
    return FileSnapshot(place, data, is_link)


def replace_file(before: FileSnapshot, data: bytes, *, backup: Path | None = None) -> None:
    """Replace the bytes of a file that is unchanged; keep the old ones in `backup`, if there is none yet."""
    path = before.path
    try:
        _make_folder(path.parent)
        if before.data is None:
            _write(path, [data])
            return
        mode = stat.S_IMODE(path.stat().st_mode)
        if backup is not None and not os.path.lexists(backup):
            _write(backup, [before.data], mode)
        beside = _write_beside(path, [data], mode)[0]
        try:
            # As late as possible: somebody may change the file while the new one is written.
            _assert_unchanged(before)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        flush_folder(path.parent)
    except OSError as error:
        raise Unwritable(f"cannot write `{path}`: {(error.strerror or 'no reason given').lower()}") from None


def remove_file(before: FileSnapshot) -> None:
    """Remove a file that is unchanged."""
    try:
        _assert_unchanged(before)
        before.path.unlink()
        flush_folder(before.path.parent)
    except OSError as error:
        raise Unwritable(f"cannot remove `{before.path}`: {(error.strerror or 'no reason given').lower()}") from None


def _assert_unchanged(before: FileSnapshot) -> None:
    if before.data is None or _read_bytes(before.path, len(before.data) + 1) != before.data:
        raise Refused(f"`{before.path}` has changed meanwhile", hint="nothing was written; try again")


def _read_bytes(path: Path, limit: int) -> bytes:
    """Return the bytes of a regular file; more than `limit` are refused."""
    with open_regular(path) as file:
        data = b""
        while len(data) <= limit and (piece := os.pread(file, limit + 1 - len(data), len(data))):
            data += piece
    if len(data) > limit:
        raise Unreadable(f"too large to change: `{path}`")
    return data


def _make_folder(folder: Path) -> None:
    """Make a folder and its parents, each for the user alone."""
    # Not `parents=True`: that gives the mode to the last folder only.
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700)


def _write(path: Path, pieces: Iterable[bytes], mode: int = 0o600) -> int:
    beside, written = _write_beside(path, pieces, mode)
    try:
        os.link(beside, path)  # not `replace`, which would overwrite
    except FileExistsError:
        raise Refused(f"`{path}` has come to be meanwhile", hint="nothing was written over") from None
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
    flush_folder(path.parent)
    return written


def _write_beside(path: Path, pieces: Iterable[bytes], mode: int) -> tuple[Path, int]:
    """Write a flushed temporary file beside a path, with its final mode; return its path and number of bytes."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(beside, flags, 0o600)  # private until `fchmod`, whatever its final mode is
    written, is_whole = 0, False
    try:
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
                written += len(piece)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
            is_whole = True
        finally:
            os.close(descriptor)
    finally:
        if not is_whole:
            beside.unlink(missing_ok=True)
    return beside, written


def flush_folder(folder: Path) -> None:
    """Flush a folder, so that a new name in it is as durable as the bytes, where it can be opened."""
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
