"""Facts about processes: whether one runs, when it began, which files it has open, and who started it.

Rules
  1. Pids are reused: a process is recognised by the time when it began. A zombie does not run.
  2. psutil is imported by the functions that use it: that takes 20 ms, which most commands need not pay.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_MAX_DELAY = 2.0
"""Seconds after a process registered itself that it may seem to have begun: clocks are rounded."""


def read_start_ticks(pid: int) -> str | None:
    """Return when a process began, in clock ticks since boot, as Claude Code notes it on Linux; None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # Field 22 of proc(5). The name of the program, field 2, may hold spaces and parentheses: hence the last `)`.
    fields = text[text.rfind(b")") + 2 :].split()
    return fields[19].decode() if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def is_registered_process(pid: int, ticks: str | None, registered: float | None) -> bool | None:
    """Tell whether the process still runs that registered itself; None if there is one that may be it.

    `ticks` is when it began, as `read_start_ticks` has it. Without that, a process that began after `registered`
    (seconds since 1970) is another one.
    """
    if ticks is not None and Path("/proc/self/stat").exists():
        return read_start_ticks(pid) == ticks
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return False
        began = process.create_time()
    except psutil.AccessDenied:  # it exists, and belongs to somebody else
        return None
    except (psutil.Error, ValueError, OverflowError):
        return False
    return False if registered is not None and began - registered > _MAX_DELAY else None


def read_pid_domain() -> str | None:
    """Return the name that Claude Code gives to the pid namespace we are in (Linux)."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return None
    return f"linux:{machine}:{namespace}" if machine else None


def find_opener(path: Path) -> int | None:
    """Return the id of a process, not this one, that has a file open; None where the system does not tell."""
    import psutil

    with suppress(OSError):
        target = path.stat()
        for process in psutil.process_iter():
            # Processes of other users cannot be asked.
            with suppress(psutil.Error):
                if process.pid != os.getpid() and any(_is_file(opened.path, target) for opened in process.open_files()):
                    return process.pid
    return None


def _is_file(path: str, target: os.stat_result) -> bool:
    with suppress(OSError):
        return os.path.samestat(Path(path).stat(), target)
    return False


class Descendant(NamedTuple):
    """A process that a command started."""

    pid: int
    in_group: bool
    is_marked: bool


def find_descendants(group: int, variable: str, value: str) -> list[Descendant]:
    """Return the running processes of a process group, and those with a mark in their environment."""
    import psutil

    found = []
    for process in psutil.process_iter():
        in_group = is_marked = False
        # Another user's environment cannot be read; what a command of ours became by `sudo` is one of its group.
        with suppress(psutil.Error, OSError):
            if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                continue
            in_group = os.getpgid(process.pid) == group
            is_marked = process.environ().get(variable) == value
        if in_group or is_marked:
            found.append(Descendant(process.pid, in_group, is_marked))
    return found
