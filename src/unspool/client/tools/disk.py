"""Files as tools open them: a real path in, bytes out; bytes in, a file that is whole.

Rules
  1. No link is followed on the way, so what is opened is what was judged: the path has no links in it, and if one has
     been put there since, it is not opened.
  2. Only regular files are opened. A pipe, a device or a socket is not waited for.
  3. A file is replaced, not written over: who reads it meanwhile, and whoever finds it after a crash, has the old one
     or the new one. Its mode stays. What has several names, or another owner, is written over, so that it stays that.
  4. A file that may not be written is not replaced either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from unspool.client.tools.tool import ToolFailed

_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
LARGEST = 64 << 20
"""Bytes of a file that is taken whole."""


class Found(NamedTuple):
    """A file as it is now."""

    data: bytes
    modified: int
    """In nanoseconds."""


def status(path: Path) -> os.stat_result | None:
    """Return what there is at a path; None if there is nothing."""
    try:
        with _folder(path.parent) as folder:
            return os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def load(path: Path) -> Found:
    """Return all of a file."""
    with opened(path) as file:
        if (size := os.fstat(file).st_size) > LARGEST:
            raise ToolFailed(f"File is too large ({size >> 20} MB; {LARGEST >> 20} MB at most). Use Bash for it.")
        data = b"".join(chunks(file))
        return Found(data, os.fstat(file).st_mtime_ns)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open a regular file for reading."""
    with _folder(path.parent) as folder:
        _check(os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False), path)
        file = os.open(path.name, _READ, dir_fd=folder)
    try:
        _check(os.fstat(file), path)
        yield file
    finally:
        os.close(file)


def chunks(file: int) -> Iterator[bytes]:
    """Yield what is in an open file, a piece at a time."""
    while piece := os.read(file, _CHUNK):
        yield piece


def store(path: Path, data: bytes) -> int:
    """Write a file, and the folders it needs. Returns when it was modified."""
    with _folder(path.parent, make=True) as folder:
        try:
            old = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            old = None
        if old is None:
            return _replace(path.name, data, folder, None)
        _check(old, path)
        file = os.open(path.name, _WRITE, dir_fd=folder)
        try:
            if old.st_nlink > 1 or old.st_uid != os.geteuid():
                return _write_over(file, data)
            try:
                return _replace(path.name, data, folder, old)
            except PermissionError:  # the file may be written, and its folder may not
                return _write_over(file, data)
        finally:
            os.close(file)


def _check(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolFailed("EISDIR: illegal operation on a directory, read")
    if not stat.S_ISREG(found.st_mode):
        raise ToolFailed(f"Not a regular file: {path} is a pipe, a device, a socket or a link.")


@contextmanager
def _folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open a folder, step by step from the root."""
    folder = os.open(path.anchor or "/", _STEP)
    try:
        for name in path.parts[1:]:
            try:
                inner = _step(name, folder, make=make)
            except OSError as problem:
                problem.filename = str(path)
                raise
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _step(name: str, folder: int, *, make: bool) -> int:
    try:
        return os.open(name, _STEP, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _STEP, dir_fd=folder)


def _replace(name: str, data: bytes, folder: int, old: os.stat_result | None) -> int:
    unfinished = f".{name[:200]}.{os.getpid()}.tmp"
    file = os.open(unfinished, _WRITE | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    try:
        try:
            if old is not None:
                with suppress(PermissionError):
                    os.fchown(file, -1, old.st_gid)
                os.fchmod(file, stat.S_IMODE(old.st_mode))
            modified = _fill(file, data)
        finally:
            os.close(file)
        os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):  # nothing is left of it but after a failure
            os.unlink(unfinished, dir_fd=folder)
    return modified


def _write_over(file: int, data: bytes) -> int:
    os.ftruncate(file, 0)
    return _fill(file, data)


def _fill(file: int, data: bytes) -> int:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)
    return os.fstat(file).st_mtime_ns
