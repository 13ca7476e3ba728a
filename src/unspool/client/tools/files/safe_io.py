"""Open, read and replace files for the tools without following links.

Rules
  1. No link is followed on the way, so what is opened is what the permission check has seen: a resolved path has no
     links in it, and if one has been put there since, it is not opened.
  2. Only regular files are opened. A pipe, a device or a socket is not waited for.
  3. A file is replaced, not overwritten: a reader, or whoever finds it after a crash, has the old content or the new.
     Its mode stays. A file with several names, or of another owner, is overwritten, so that it stays that.
  4. A file that may not be written is not replaced either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unspool.client.tool_result import ToolFailed
from unspool.files import temporary_file, write_flushed

# O_PATH needs no permission to read a folder, only to pass through it; macOS does not have it.
_FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
MAX_BYTES = 64 << 20
"""The largest file that is read as a whole."""


def file_status(path: Path) -> os.stat_result | None:
    """Return the status of a path; None if nothing is there."""
    try:
        with _open_folder(path.parent) as folder:
            return os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_file(path: Path) -> bytes:
    """Return all of a file."""
    with open_file(path) as file:
        if (size := os.fstat(file).st_size) > MAX_BYTES:
            raise ToolFailed(f"File is too large ({size >> 20} MB; {MAX_BYTES >> 20} MB at most). Use Bash for it.")
        return b"".join(read_chunks(file))


@contextmanager
def open_file(path: Path) -> Iterator[int]:
    """Open a regular file for reading; yields its descriptor."""
    with _open_folder(path.parent) as folder:
        # Checked before it is opened as well: to open a device can already do something.
        _check_regular(os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False), path)
        file = os.open(path.name, _READ_FLAGS, dir_fd=folder)
    try:
        _check_regular(os.fstat(file), path)
        yield file
    finally:
        os.close(file)


def read_chunks(file: int) -> Iterator[bytes]:
    """Yield the bytes of an open file in chunks."""
    while chunk := os.read(file, _CHUNK_BYTES):
        yield chunk


def write_file(path: Path, data: bytes) -> None:
    """Write a file, and make the folders it needs."""
    with _open_folder(path.parent, make=True) as folder:
        try:
            old = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return _replace(path.name, data, folder, None)
        _check_regular(old, path)
        file = os.open(path.name, _WRITE_FLAGS, dir_fd=folder)
        try:
            _check_regular(os.fstat(file), path)
            if old.st_nlink > 1 or old.st_uid != os.geteuid():
                return _overwrite(file, data)
            try:
                return _replace(path.name, data, folder, old)
            except PermissionError:  # the file may be written, and its folder may not
                return _overwrite(file, data)
        finally:
            os.close(file)


def _check_regular(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailed("EISDIR: illegal operation on a directory, read")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed(f"Not a regular file: {path} is a pipe, a device, a socket or a link.")


@contextmanager
def _open_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open a folder step by step from the root: O_NOFOLLOW is about the last name of a path only."""
    folder = os.open(path.anchor or "/", _FOLDER_FLAGS)
    try:
        for name in path.parts[1:]:
            try:
                inner = _open_subfolder(name, folder, make=make)
            except OSError as problem:
                problem.filename = str(path)
                raise
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _open_subfolder(name: str, folder: int, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _FOLDER_FLAGS, dir_fd=folder)


def _replace(name: str, data: bytes, folder: int, old: os.stat_result | None) -> None:
    with temporary_file(Path(name), 0o666, folder) as (unfinished, file):
        if old is not None:
            # The group before the mode: to change it clears the bits that set an id.
            with suppress(PermissionError):
                os.fchown(file, -1, old.st_gid)
            os.fchmod(file, stat.S_IMODE(old.st_mode))
        write_flushed(file, [data])
        os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)


def _overwrite(file: int, data: bytes) -> None:
    os.ftruncate(file, 0)
    write_flushed(file, [data])
