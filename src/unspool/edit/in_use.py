"""Finds out whether somebody works with a session: then its file is not written.

Rules
  1. A process that has the file open, or is registered as running it (`sessions/<pid>.json`), has it in use. Claude
     Code opens the file only to append a line, so the registry is the surer sign; a file that a killed process left
     there is recognised by the time that the process with that number started.
  2. A call that nobody has answered means that a tool may be running, or that a person is asked for permission.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from unspool.edit.planning.session_view import view_session
from unspool.edit.session_text import SessionText
from unspool.errors import UnspoolError
from unspool.files import MAX_SIDE_FILE, read_whole
from unspool.format.side_files import parse_process

_PROCESSES = Path("/proc")


def find_other_process(path: Path, session_id: str, config: Path | None) -> int | None:
    """Return the id of a process, not this one, that works with a session."""
    registered = _find_registered(config, session_id) if config is not None else None
    return registered if registered not in (None, os.getpid()) else _find_opener(path)


def in_use_reason(path: Path, session_id: str, config: Path | None, text: SessionText) -> str | None:
    """Return why a session cannot be written, None if it can."""
    if config is not None and (pid := _find_registered(config, session_id)) is not None:
        return f"process {pid} is running this session"
    if (pid := _find_opener(path)) is not None:
        return f"process {pid} has it open"
    view = view_session(text)
    if any(call.result is None and call.use_entry.offset >= view.last_group_from for call in view.calls):
        return "it ends with a call that nobody has answered"
    return None


def _find_registered(config: Path, session_id: str) -> int | None:
    for path in (config / "sessions").glob("*.json"):
        try:
            process = parse_process(read_whole(path, MAX_SIDE_FILE))
        except (UnspoolError, msgspec.DecodeError):
            continue
        if (
            process.session_id == session_id
            and process.pid is not None
            and _is_running(process.pid, process.proc_start)
        ):
            return process.pid
    return None


def _is_running(pid: int, started: str | None) -> bool:
    """Return whether a process runs, and is not another one that got the same number later."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    try:
        # The name in parentheses may hold spaces and parentheses itself: the numbers begin after the last one.
        fields = (_PROCESSES / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # no such place on this system: the number has to do
        return True
    return started is None or len(fields) < 20 or fields[19] == started


def _find_opener(path: Path) -> int | None:
    """Return a process, not this one, that has a file open; where the system does not tell, none."""
    with suppress(OSError):
        target = path.stat()
        for process in _PROCESSES.iterdir():
            if process.name.isdigit() and int(process.name) != os.getpid() and _has_open(process, target):
                return int(process.name)
    return None


def _has_open(process: Path, target: os.stat_result) -> bool:
    try:
        for link in (process / "fd").iterdir():
            with suppress(OSError):
                status = link.stat()
                if (status.st_dev, status.st_ino) == (target.st_dev, target.st_ino):
                    return True
    except OSError:  # gone, or somebody else's
        pass
    return False
