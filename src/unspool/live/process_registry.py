"""Reads Claude Code's process registry (`sessions/<pid>.json`) and checks which of its processes are alive.

Rules
  1. Pids are reused. A file is believed only if the process with its pid began when the file says (`procStart`, in
     clock ticks since boot); without that field, a process that began after the file's `startedAt` is another one, and
     any other is only probably the one.
  2. A file of another machine or container (`pidDomain`) cannot be checked at all.
  3. Whether a process is alive is checked each time, also if its file has not changed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from unspool.format.side_files import ProcessEntry
from unspool.live.session_files import is_folder
from unspool.live.state.model import Liveness, SessionProcess
from unspool.paths import SESSION_ID
from unspool.processes import read_pid_domain
from unspool.read import is_running, registry_files


class ProcessRegistry:
    """The process registry of one config folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = registry_files(folder)
        self._pid_domain = read_pid_domain()

    @property
    def exists(self) -> bool:
        """Whether Claude Code keeps a registry in this config folder."""
        return is_folder(self.folder) and not self.folder.is_symlink()

    def read(self) -> list[SessionProcess]:
        """Return the processes in the registry, one for each session: of several the one that is alive."""
        found: dict[str, SessionProcess] = {}
        for entry in self._files.read().values() if self.exists else ():
            process = self._check(entry)
            if process is not None and process_rank(process) >= process_rank(found.get(process.session_id)):
                found[process.session_id] = process
        return list(found.values())

    def _check(self, entry: ProcessEntry) -> SessionProcess | None:
        if entry.pid is None or entry.session_id is None or not SESSION_ID.fullmatch(entry.session_id):
            return None
        return SessionProcess(
            pid=entry.pid,
            session_id=entry.session_id,
            life=self._liveness(entry),
            status=entry.status,
            waiting_for=entry.waiting_for,
            since=_time(entry.status_updated_at) or _time(entry.updated_at),
            updated=_time(entry.updated_at) or _time(entry.started_at),
            cwd=entry.cwd,
        )

    def _liveness(self, entry: ProcessEntry) -> Liveness:
        runs = is_running(entry)
        if runs:
            return Liveness.LIVES
        if entry.pid_domain and self._pid_domain and entry.pid_domain != self._pid_domain:
            return Liveness.ELSEWHERE
        return Liveness.LIKELY if runs is None else Liveness.DEAD


def process_rank(process: SessionProcess | None) -> tuple[int, float]:
    """Return the sort key of the entries of one session: a living process last, then the newer one."""
    if process is None:
        return (-1, 0)
    liveness = [Liveness.DEAD, Liveness.ELSEWHERE, Liveness.LIKELY, Liveness.LIVES].index(process.life)
    return liveness, process.updated.timestamp() if process.updated else 0


def _time(milliseconds: float | None) -> datetime | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
    except (OverflowError, ValueError, OSError):
        return None
