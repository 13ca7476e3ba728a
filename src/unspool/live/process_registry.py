"""The processes that say they run a session: a folder of `<pid>.json` in, each with whether its process lives out.

Rules
  1. Pids come again. A file is believed only if the process with that pid began when the file says (`procStart`, clock
     ticks since boot); where it does not say, a process that began after the file's `startedAt` is another one.
  2. Where there is no `/proc`, a process of that pid is taken for it, and that is only probable. A file of another
     machine or container (`pidDomain`) cannot be checked at all.
  3. Only regular files named `<pid>.json` are opened, links never; the `.key` files beside them are not even looked at.
  4. A file is read again only when it has changed; whether the process lives is asked each time.
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
from unspool.files.open import read_whole
from unspool.format.side_files.json import Process, parse_process
from unspool.live.evidence import Life, Running
from unspool.paths import SESSION_ID
from unspool.read.scan import Stamp, stamp_of

LARGEST = 256 * 1024
"""Bytes of an entry; real ones have less than two thousand."""
MOST = 2000
"""Entries that are looked at."""
_NAME = re.compile(r"([1-9][0-9]{0,9})\.json")


class Birth(msgspec.Struct, frozen=True):
    """When a process began."""

    ticks: int
    """Clock ticks since boot."""
    at: datetime | None = None


class Registry:
    """The processes of a config folder."""

    def __init__(self, folder: Path, born: Callable[[int], Birth | None] | None = None) -> None:
        self.folder = folder
        self._born = born or _birth
        self._domain = _domain()
        self._read: dict[str, tuple[Stamp, Process | None]] = {}

    @property
    def is_kept(self) -> bool:
        """Whether the program keeps a registry here."""
        return self.folder.is_dir() and not self.folder.is_symlink()

    def processes(self) -> list[Running]:
        """Return what the registry holds now; of several entries for a session the living one counts."""
        found: dict[str, Running] = {}
        for entry in self._entries():
            running = self._running(entry)
            if running is not None and _rank(running) >= _rank(found.get(running.session_id)):
                found[running.session_id] = running
        return list(found.values())

    def _entries(self) -> list[Process]:
        before, self._read = self._read, {}
        if not self.is_kept:
            return []
        try:
            with os.scandir(self.folder) as listing:
                children = [child for child in listing if _NAME.fullmatch(child.name)][:MOST]
        except OSError:
            return []
        for child in children:
            try:
                stamp = stamp_of(child.stat(follow_symlinks=False))
            except OSError:
                continue
            known = before.get(child.name)
            process = known[1] if known and known[0] == stamp else _parsed(Path(child.path))
            self._read[child.name] = (stamp, process)
        return [process for _, process in self._read.values() if process is not None]

    def _running(self, entry: Process) -> Running | None:
        if entry.pid is None or entry.session_id is None or not SESSION_ID.fullmatch(entry.session_id):
            return None
        return Running(
            pid=entry.pid,
            session_id=entry.session_id,
            life=self._life(entry, entry.pid),
            status=entry.status,
            waiting_for=entry.waiting_for,
            since=_time(entry.status_updated_at) or _time(entry.updated_at),
            updated=_time(entry.updated_at) or _time(entry.started_at),
            version=entry.version,
            cwd=entry.cwd,
            entrypoint=entry.entrypoint,
        )

    def _life(self, entry: Process, pid: int) -> Life:
        if not _has_proc():
            return Life.LIKELY if _exists(pid) else Life.DEAD
        birth = self._born(pid)
        if birth is not None and entry.proc_start == str(birth.ticks):
            return Life.LIVES
        if entry.pid_domain and self._domain and entry.pid_domain != self._domain:
            return Life.ELSEWHERE
        if birth is None or entry.proc_start is not None:
            return Life.DEAD
        started = _time(entry.started_at)
        is_another = started is not None and birth.at is not None and (birth.at - started).total_seconds() > 2
        return Life.DEAD if is_another else Life.LIKELY


def _rank(running: Running | None) -> tuple[int, float]:
    """Return what sorts entries of one session: the living before the dead, then the newer."""
    if running is None:
        return (-1, 0)
    lives = [Life.DEAD, Life.ELSEWHERE, Life.LIKELY, Life.LIVES].index(running.life)
    return lives, running.updated.timestamp() if running.updated else 0


def _parsed(path: Path) -> Process | None:
    match = _NAME.fullmatch(path.name)
    try:
        process = parse_process(read_whole(path, LARGEST))
    except (UnspoolError, msgspec.MsgspecError, OSError):
        return None  # being written, or not for us; the next look may tell
    return process if match and process.pid == int(match[1]) else None


def _birth(pid: int) -> Birth | None:
    """Return when a process began; nothing if there is none, or only what is left of it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rfind(b")") + 2 :].split()  # the name before may hold anything
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    ticks = int(fields[19])
    boot, rate = _boot()
    return Birth(ticks, datetime.fromtimestamp(boot + ticks / rate, UTC) if boot else None)


@lru_cache(1)
def _boot() -> tuple[int, int]:
    """Return when the system began, and how many ticks a second has."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0, 100
    found = next((int(line.split()[1]) for line in lines if line.startswith("btime ")), 0)
    return found, os.sysconf("SC_CLK_TCK")


def _has_proc() -> bool:
    return Path("/proc/self/stat").exists()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _domain() -> str | None:
    """Return what the program calls the place that our pids are of (Linux)."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return None
    return f"linux:{machine}:{space}" if machine else None


def _time(milliseconds: float | None) -> datetime | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
    except (OverflowError, ValueError, OSError):
        return None
