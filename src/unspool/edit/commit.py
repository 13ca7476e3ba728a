"""The only place that writes inside a config folder.

Rules
  1. A file appears whole or not at all: it is written beside its place, flushed, and then given its name.
  2. A file that is there is never written over: its name is given only if nobody has it (`link`, which fails then).
  3. Files and folders are for the user alone (0600, 0700). No link on the way is followed out of the folder.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from unspool.errors import Refused, Unwritable


def write_new(path: Path, pieces: Iterable[bytes], *, within: Path) -> int:
    """Write a file that is not there yet, and the folders it lies in; return how many bytes it has."""
    if os.path.lexists(path):
        raise Refused(f"`{path}` is there already", hint="nothing was written; move it away first if it is another one")
    try:
        if not path.parent.resolve().is_relative_to(within.resolve()):
            raise Refused(f"`{path}` would lie outside `{within}`", hint="a link leads out of the folder")
        _make_folder(path.parent)
        return _write(path, pieces)
    except OSError as error:
        raise Unwritable(f"cannot write `{path}`: {(error.strerror or 'no reason given').lower()}") from None


def _make_folder(folder: Path) -> None:
    """Make a folder and those it lies in, each for the user alone: `parents=True` would not do that."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700)


def _write(path: Path, pieces: Iterable[bytes]) -> int:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(beside, flags, 0o600)
    written = 0
    try:
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
                written += len(piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(beside, path)
    except FileExistsError:
        raise Refused(f"`{path}` has come to be meanwhile", hint="nothing was written over") from None
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
    _flush_folder(path.parent)
    return written


def _flush_folder(folder: Path) -> None:
    """Make the name as durable as the bytes, where a folder can be opened."""
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
