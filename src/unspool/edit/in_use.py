"""Whether somebody works with a session: then its file is not written.

Rules
  1. A process that has the file open, or is registered as running it (`sessions/<pid>.json`), has it in use. The
     program itself opens the file only to add a line, so the registry is the surer sign; a file that a killed process
     left there is known by the time the process with that number started.
  2. A call that nobody has answered means that a tool may be running, or that somebody is asked for permission.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from unspool.edit.session_view import View
from unspool.errors import UnspoolError
from unspool.files.open import MAX_SIDE_FILE, read_whole
from unspool.format.side_files.json import parse_process

_PROCESSES = Path("/proc")


def runner(path: Path, session_id: str, config: Path | None) -> int | None:
    """Return the process, not this one, that works with a session."""
    registered = _registered(config, session_id) if config is not None else None
    return registered if registered not in (None, os.getpid()) else _opened(path)


def reason(path: Path, session_id: str, config: Path | None, seen: View) -> str | None:
    """Return why a session cannot be written, None if it can."""
    if config is not None and (pid := _registered(config, session_id)) is not None:
        return f"process {pid} is running this session"
    if (pid := _opened(path)) is not None:
        return f"process {pid} has it open"
    if any(call.result is None and call.entry.offset >= seen.last_from for call in seen.calls):
        return "it ends with a call that nobody has answered"
    return None


def _registered(config: Path, session_id: str) -> int | None:
    for path in (config / "sessions").glob("*.json"):
        try:
            process = parse_process(read_whole(path, MAX_SIDE_FILE))
        except (UnspoolError, msgspec.DecodeError):
            continue
        if process.session_id == session_id and process.pid is not None and _runs(process.pid, process.proc_start):
            return process.pid
    return None


def _runs(pid: int, started: str | None) -> bool:
    """Tell whether a process runs, and is the one that was meant."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    try:
        fields = (_PROCESSES / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # no such place on this system: the number has to do
        return True
    return started is None or len(fields) < 20 or fields[19] == started


def _opened(path: Path) -> int | None:
    """Return a process, not this one, that has a file open; where the system does not tell, nobody has."""
    with suppress(OSError):
        wanted = path.stat()
        for process in _PROCESSES.iterdir():
            if process.name.isdigit() and int(process.name) != os.getpid() and _has(process, wanted):
                return int(process.name)
    return None


def _has(process: Path, wanted: os.stat_result) -> bool:
    try:
        for link in (process / "fd").iterdir():
            with suppress(OSError):
                found = link.stat()
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return True
    except OSError:  # gone, or somebody else's
        pass
    return False
