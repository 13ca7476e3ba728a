"""Reads Claude Code's process registry (`sessions/<pid>.json`) and checks which of its processes are alive.

Rules
  1. Pids are reused. A file is believed only if the process with its pid began when the file says (`procStart`, in
     clock ticks since boot); without that field, a process that began after the file's `startedAt` is another one.
  2. Where there is no `/proc`, any process with that pid is taken for it, which is only probable. A file of another
     machine or container (`pidDomain`) cannot be checked at all.
  3. Only regular files named `<pid>.json` are opened, never links. The `.key` files beside them hold a token of Claude
     Code's own and are not even looked at.
  4. A file is read again only when it has changed; whether its process is alive is checked each time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import msgspec

from unspool.errors import UnspoolError
from unspool.files import read_whole
from unspool.format.side_files import ProcessEntry, parse_process
from unspool.live.state.model import Liveness, SessionProcess
from unspool.paths import SESSION_ID
from unspool.read import Stamp, stamp_of

MAX_FILE_BYTES = 256 * 1024
"""Real registry files have less than two thousand bytes."""
MAX_FILES = 2000
_NAME = re.compile(r"([1-9][0-9]{0,9})\.json")


class ProcessStart(msgspec.Struct, frozen=True):
    """When a process was started."""

    ticks: int
    """Clock ticks since boot, field 22 of `/proc/<pid>/stat`."""
    at: datetime | None = None


class ProcessRegistry:
    """The process registry of one config folder."""

    def __init__(self, folder: Path, read_start: Callable[[int], ProcessStart | None] | None = None) -> None:
        self.folder = folder
        self._read_start = read_start or read_process_start
        self._pid_domain = _read_pid_domain()
        self._cache: dict[str, tuple[Stamp, ProcessEntry | None]] = {}

    @property
    def exists(self) -> bool:
        """Whether Claude Code keeps a registry in this config folder."""
        return self.folder.is_dir() and not self.folder.is_symlink()

    def read(self) -> list[SessionProcess]:
        """Return the processes in the registry, one for each session: of several the one that is alive."""
        found: dict[str, SessionProcess] = {}
        for entry in self._entries():
            process = self._check(entry)
            if process is not None and _rank(process) >= _rank(found.get(process.session_id)):
                found[process.session_id] = process
        return list(found.values())

    def _entries(self) -> list[ProcessEntry]:
        before, self._cache = self._cache, {}
        if not self.exists:
            return []
        try:
            with os.scandir(self.folder) as listing:
                children = [child for child in listing if _NAME.fullmatch(child.name)][:MAX_FILES]
        except OSError:
            return []
        for child in children:
            try:
                stamp = stamp_of(child.stat(follow_symlinks=False))
            except OSError:
                continue
            known = before.get(child.name)
            process = known[1] if known and known[0] == stamp else _parse_file(Path(child.path))
            self._cache[child.name] = (stamp, process)
        return [process for _, process in self._cache.values() if process is not None]

    def _check(self, entry: ProcessEntry) -> SessionProcess | None:
        if entry.pid is None or entry.session_id is None or not SESSION_ID.fullmatch(entry.session_id):
            return None
        return SessionProcess(
            pid=entry.pid,
            session_id=entry.session_id,
            life=self._liveness(entry, entry.pid),
            status=entry.status,
            waiting_for=entry.waiting_for,
            since=_time(entry.status_updated_at) or _time(entry.updated_at),
            updated=_time(entry.updated_at) or _time(entry.started_at),
            version=entry.version,
            cwd=entry.cwd,
            entrypoint=entry.entrypoint,
        )

    def _liveness(self, entry: ProcessEntry, pid: int) -> Liveness:
        if not Path("/proc/self/stat").exists():
            return Liveness.LIKELY if _exists(pid) else Liveness.DEAD
        start = self._read_start(pid)
        if start is not None and entry.proc_start == str(start.ticks):
            return Liveness.LIVES
        if entry.pid_domain and self._pid_domain and entry.pid_domain != self._pid_domain:
            return Liveness.ELSEWHERE
        if start is None or entry.proc_start is not None:
            return Liveness.DEAD
        started = _time(entry.started_at)
        is_another = started is not None and start.at is not None and (start.at - started).total_seconds() > 2
        return Liveness.DEAD if is_another else Liveness.LIKELY


def _rank(process: SessionProcess | None) -> tuple[int, float]:
    """Return the sort key of the entries of one session: a living process last, then the newer one."""
    if process is None:
        return (-1, 0)
    liveness = [Liveness.DEAD, Liveness.ELSEWHERE, Liveness.LIKELY, Liveness.LIVES].index(process.life)
    return liveness, process.updated.timestamp() if process.updated else 0


def _parse_file(path: Path) -> ProcessEntry | None:
    match = _NAME.fullmatch(path.name)
    try:
        process = parse_process(read_whole(path, MAX_FILE_BYTES))
    except (UnspoolError, msgspec.MsgspecError, OSError):
        return None  # being written, or not readable for us; the next read may succeed
    return process if match and process.pid == int(match[1]) else None


def read_process_start(pid: int) -> ProcessStart | None:
    """Return when a process was started; None if there is none, or only a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rfind(b")") + 2 :].split()  # the name before it may hold spaces and parentheses
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    ticks = int(fields[19])
    booted, rate = _read_boot()
    return ProcessStart(ticks, datetime.fromtimestamp(booted + ticks / rate, UTC) if booted else None)


@lru_cache(1)
def _read_boot() -> tuple[int, int]:
    """Return when the system was booted, and the clock ticks per second."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0, 100
    booted = next((int(line.split()[1]) for line in lines if line.startswith("btime ")), 0)
    return booted, os.sysconf("SC_CLK_TCK")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it exists, and belongs to somebody else
        pass
    return True


def _read_pid_domain() -> str | None:
    """Return the name that Claude Code gives to the pid namespace we are in (Linux)."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return None
    return f"linux:{machine}:{namespace}" if machine else None


def _time(milliseconds: float | None) -> datetime | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
    except (OverflowError, ValueError, OSError):
        return None
