"""Locks files and folders between processes (`flock`).

Rules
  1. A lock ends with the process that holds it, however that ends: none is ever left over.
  2. A lock belongs to an open file: two threads of a process exclude each other too.
  3. A process that was forked meanwhile does not keep the lock of its parent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_LONGEST_PAUSE = 0.05
_held: set[int] = set()
"""The descriptors of all locks of this process, for rule 3."""


class LockTaken(Exception):
    """Somebody else holds the lock."""


@contextmanager
def hold_lock(path: Path, *, shared: bool = False, timeout: float | None = None) -> Iterator[None]:
    """Hold the lock of a file, which is created if it is missing, or of a folder; see `acquire_lock`."""
    descriptor = acquire_lock(path, shared=shared, timeout=timeout)
    try:
        yield
    finally:
        release_lock(descriptor)


def acquire_lock(path: Path, *, shared: bool = False, timeout: float | None = None) -> int:
    """Lock a file or a folder until `release_lock`; several may hold it `shared`.

    It is waited for, with a timeout for so many seconds at most: then `LockTaken` is raised.
    """
    import fcntl

    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600)
    _held.add(descriptor)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with ExitStack() as undo:  # also after an interrupt while it waits
        undo.callback(release_lock, descriptor)
        if timeout is None:
            fcntl.flock(descriptor, kind)
        else:
            _poll(descriptor, kind | fcntl.LOCK_NB, timeout)
        undo.pop_all()
    return descriptor


def release_lock(descriptor: int) -> None:
    """Release a lock."""
    if descriptor in _held:  # else this is a fork, which has closed it
        _held.remove(descriptor)
        os.close(descriptor)


def _poll(descriptor: int, operation: int, timeout: float) -> None:
    """Try to lock again and again: `flock` itself knows no timeout."""
    import fcntl

    until, pause = time.monotonic() + timeout, 0.001
    while True:
        try:
            fcntl.flock(descriptor, operation)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise LockTaken from None
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        else:
            return


def _close_inherited() -> None:
    """Close the locks of the parent, in a fork: as long as any process has them open, they are held."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_inherited)
