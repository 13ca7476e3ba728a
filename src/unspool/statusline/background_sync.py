"""Starts a sync in a process of its own, once in a while, and does not wait for it.

Rules
  1. At most one is started in `INTERVAL` seconds by all status lines together, and none while another process brings
     the store up to date.
  2. `subprocess` is not imported where the system can do without: it takes as long as all else that a status line does.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

INTERVAL = 60
"""Seconds after which a store is brought up to date."""
_MARK = "statusline.started"
"""The file in the data folder whose time says when the last sync was started."""
_LOCK = "sync.lock"


def start_sync(folder: str, config: str) -> bool:
    """Start a sync of a config folder unless one runs or was just started; return whether it was started."""
    with suppress(OSError, ImportError):
        if not _is_locked(f"{folder}/{_LOCK}") and _claim_start(folder):
            _run_detached([sys.executable, "-P", "-m", "unspool", "sync", "--in-background", "--config-dir", config])
            return True
    return False


def _claim_start(folder: str) -> bool:
    """Note that a sync is started now; return whether the last one was started long enough ago."""
    import fcntl

    os.makedirs(folder, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(f"{folder}/{_MARK}", flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
        # A clock that was set back must not stop it for longer.
        if found.st_size and 0 <= time.time() - found.st_mtime < INTERVAL:
            return False
        os.pwrite(descriptor, b"1", 0)
        os.utime(descriptor)
        return True
    finally:
        os.close(descriptor)


def _is_locked(path: str) -> bool:
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _run_detached(command: list[str]) -> None:
    """Run a command in a session of its own, without a terminal, and do not wait for it."""
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    try:
        os.posix_spawn(command[0], command, os.environ, file_actions=nowhere, setsid=True)
    except (NotImplementedError, AttributeError):
        import subprocess

        none = subprocess.DEVNULL
        subprocess.Popen(command, start_new_session=True, stdin=none, stdout=none, stderr=none)
