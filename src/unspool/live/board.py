"""Keeps the live board of config folders: every session that works or worked lately, and what it is doing.

Rules
  1. Only what has changed is read. Of a session that has not changed for long only the time of its last line is read:
     it is idle, unless that line is recent.
  2. Files are checked (`stat`) when something hints at them and while they are hot, and all files once in a while:
     hints may be missed.
  3. The first refresh reports the status of each session, not what led to it. After that each line is reported once; a
     file that was rewritten is read again, and what was reported is not reported again.
  4. Rows and refreshes may be requested from several threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from msgspec.structs import replace

from unspool.format import parse_local_time
from unspool.live.approval_settings import ApprovalSettings
from unspool.live.followed_file import FollowedFile
from unspool.live.hook_signals import HookSignals
from unspool.live.process_registry import ProcessRegistry, process_rank
from unspool.live.session_files import (
    SessionFileName,
    find_session_files,
    parse_session_path,
    projects_folder,
    read_last_time,
    read_stamp,
    walk_folder,
)
from unspool.live.state.events import LiveEvent
from unspool.live.state.model import (
    QUESTION_TOOLS,
    RESTING,
    Activity,
    ActivityKind,
    EvidenceSource,
    HookSignal,
    Liveness,
    PendingCall,
    SessionProcess,
    SessionStatus,
    Verdict,
)
from unspool.live.state.rows import BoardRow, row_sort_key
from unspool.live.state.status import SessionState, status_at
from unspool.live.state.verdict import LONG_AGO, REGISTRATION_GRACE, Evidence, board_group, decide, is_later
from unspool.paths import is_config_folder, project_name
from unspool.read import Skipped, Stamp, find_config_folder

DEFAULT_RECENT = LONG_AGO
AGENT_RECENT = timedelta(hours=1)
"""How long after its last line a sub-agent is still read."""
HOT = timedelta(minutes=2)
"""How long after a change a file is checked with every refresh."""
DECIDE_ALL_EVERY = timedelta(seconds=5)
"""How often the verdicts on calm sessions are computed again."""
CALM = (ActivityKind.WAITING, ActivityKind.INTERRUPTED, ActivityKind.ERROR, *RESTING)
"""What lasts until the user does something."""
_GONE = Stamp(-1, 0, 0, 0)


class SessionFamily(NamedTuple):
    """The files of one session: its own (several if it was copied), and those of its sub-agents."""

    sessions: list[FollowedFile]
    agents: list[FollowedFile]


class BoardFolder:
    """One of the folders of a board: its session files, its process registry and its settings."""

    def __init__(self, root: Path, registry: Path | None = None) -> None:
        config = root if is_config_folder(root) else find_config_folder(root) or root
        self.root, self.config, self.projects = root, config, projects_folder(root)
        self.registry = registry or config / "sessions"
        self.processes, self.settings = ProcessRegistry(self.registry), ApprovalSettings(config)


class Board:
    """The sessions of a config folder, or of several, as they are now."""

    def __init__(
        self,
        roots: Path | Sequence[Path],
        signals: Path,
        *,
        clock: Callable[[], datetime],
        recent: timedelta = DEFAULT_RECENT,
        registry: Path | None = None,
    ) -> None:
        self.folders = [BoardFolder(root, registry) for root in ([roots] if isinstance(roots, Path) else roots)]
        self.signals = signals
        self._clock, self._recent = clock, recent
        self._hook_signals = HookSignals(signals)
        self._stamps: dict[str, Stamp] = {}
        """All files there are."""
        self._files: dict[str, FollowedFile] = {}
        """The files that were read."""
        self._processes: dict[str, SessionProcess] = {}
        self._signals: dict[str, dict[str, HookSignal]] = {}
        self._hot: dict[str, datetime] = {}
        self._families: dict[str, SessionFamily] | None = None
        """The read files by session; None when they have to be grouped again."""
        self._active: set[str] = set()
        """The sessions that are doing something, themselves or by a sub-agent."""
        self._searched: tuple[set[str], int] = (set(), 0)
        """The sessions for which no file was found, and among how many files."""
        self._skipped_folders: list[Skipped] = []
        self._has_begun = False
        self._decided_all_at: datetime | None = None
        self._lock = Lock()

    @property
    def unread(self) -> int:
        """How many sessions have been idle for so long that they were not read."""
        with self._lock:
            names = (self._parse_path(path) for path in self._stamps if path not in self._files)
            return sum(1 for name in names if name is not None and not name.is_agent)

    @property
    def skipped(self) -> list[Skipped]:
        """The files and folders that cannot be read, ordered by path."""
        with self._lock:
            files = [Skipped(Path(path), file.problem) for path, file in self._files.items() if file.problem]
            return sorted([*self._skipped_folders, *files])

    @property
    def watched_folders(self) -> list[Path]:
        """The folders whose changes concern the board, whether they exist or not."""
        return [path for each in self.folders for path in (each.projects, each.registry)] + [self.signals]

    @property
    def is_active(self) -> bool:
        """Whether any session is doing something that may change without a line being written."""
        return bool(self._active)

    def now(self) -> datetime:
        """Return the time by the board's clock."""
        return self._clock()

    def refresh(self, hints: Iterable[Path] | None = None) -> list[LiveEvent]:
        """Check all files, or only the hinted and the hot ones, and return what has happened."""
        with self._lock:
            now = self._clock()
            if hints is None or not self._has_begun:
                changed = self._find_changed(now)
            else:
                changed = self._check_hinted(map(str, hints), now)
            affected = self._refresh_processes_and_signals()
            read = list(self._read_files([*changed, *self._unread_files_of_processes(changed)], now))
            status_events = self._decide(affected | {file.session_id for file, _ in read}, now)
            self._has_begun = True
        # Events of lines carry the verdict that was reached after all of them were read.
        lines = [(file, event) for file, events in read for event in events if not file.is_special]
        return [*(replace(event, status=file.status, verdict=file.verdict) for file, event in lines), *status_events]

    def rows(self, now: datetime, only: Container[str] | None = None) -> list[BoardRow]:
        """Return the rows of all sessions, or of some, in the order of the board."""
        with self._lock:
            rows = [
                self._row(file, family, now)
                for id, family in self._by_session().items()
                if only is None or id in only
                for file in (*family.sessions, *family.agents)
                if file.is_shown and file.verdict is not None
            ]
            known = {row.session_id for row in rows}
            for id, process in self._processes.items():
                if id not in known and process.life is not Liveness.DEAD and (only is None or id in only):
                    rows.append(self._row_without_file(process, now))
        return sorted(rows, key=row_sort_key)

    # Rows

    def _row(self, file: FollowedFile, family: SessionFamily, now: datetime) -> BoardRow:
        metadata, state, verdict = file.metadata, file.state, file.verdict
        assert verdict is not None
        # Of a session what every list shows of it. A sub-agent is in no list.
        facts = None if file.name.is_agent else file.facts
        cwd, branch = (facts.cwd, facts.branch) if facts else (metadata.cwd, metadata.branch)
        process = self._processes.get(file.session_id) if not file.name.is_agent else None
        agents = 0 if file.name.is_agent else sum(agent.is_working and agent.is_shown for agent in family.agents)
        return BoardRow(
            session_id=file.session_id,
            agent_id=file.name.agent_id,
            path=file.path,
            title=file.title,
            project=project_name(cwd, file.name.project),
            cwd=cwd,
            branch=branch,
            model=metadata.model,
            status=status_at(state, now),
            verdict=verdict,
            last=file.last or (_modified(file.stamp) if file.stamp else None),
            goal=metadata.goal or metadata.queued,
            recent_output=metadata.output,
            pending=state.open_calls[-1] if state.open_calls else None,
            asking=self._asking_call(file, family, verdict.activity),
            tokens_5m=metadata.tokens_5m,
            tokens_1h=metadata.tokens_1h,
            context_tokens=facts.context_tokens if facts else metadata.context_tokens,
            agents=agents,
            commands=len(state.background) if verdict.activity.kind not in RESTING else 0,
            project_hash=file.name.project,
            group=board_group(verdict, state),
            started=parse_local_time(facts.started, UTC) if facts else metadata.started,
            pid=process.pid if process else None,
            is_alive=process is not None and process.life is Liveness.LIVES,
        )

    def _asking_call(self, file: FollowedFile, family: SessionFamily, activity: Activity) -> PendingCall | None:
        """Return the call that a verdict says is waiting for the user."""
        agents = () if file.name.is_agent else family.agents
        calls = [call for one in (file, *agents) for call in one.state.open_calls]
        match activity.kind:
            case ActivityKind.QUESTION:
                found = [call for call in calls if call.name in QUESTION_TOOLS]
                return next((call for call in found if call.question == activity.message), next(iter(found), None))
            case ActivityKind.PERMISSION:
                found = [call for call in calls if (call.name, call.target) == (activity.tool, activity.target)]
                return next(iter(found), None) or self._signalled_call(file.session_id, activity)
            case _:
                return None

    def _signalled_call(self, session_id: str, activity: Activity) -> PendingCall | None:
        """Return the call that a hook has reported, if its line is not written yet."""
        signal = self._signals.get(session_id.lower(), {}).get("PermissionRequest")
        if signal is None or signal.tool is None or signal.tool != activity.tool:
            return None
        return PendingCall("", signal.tool, activity.target, signal.input, signal.at)

    def _row_without_file(self, process: SessionProcess, now: datetime) -> BoardRow:
        """Return the row of a process that waits for its first prompt: it has no file yet."""
        state = SessionState()
        verdict = decide(Evidence(state, process, self._signals.get(process.session_id.lower(), {})), now)
        return BoardRow(
            session_id=process.session_id,
            project=project_name(process.cwd, None),
            cwd=process.cwd,
            status=SessionStatus.IDLE,
            verdict=verdict,
            last=process.updated,
            group=board_group(verdict, state),
            pid=process.pid,
            is_alive=process.life is Liveness.LIVES,
        )

    # Which files have changed

    def _find_changed(self, now: datetime) -> list[tuple[str, Stamp]]:
        """Check all files; the latest come first."""
        skipped: list[Skipped] = []
        found: dict[str, Stamp] = {}
        for folder in self.folders:
            folder.projects = projects_folder(folder.root)
            found |= dict(find_session_files(folder.projects, skipped.append))
        self._skipped_folders = skipped
        changed = [(path, stamp) for path, stamp in found.items() if self._stamps.get(path) != stamp]
        if not self._has_begun:
            self._hook_signals.remove_old(now)
            self._stamps = found
        gone = [(path, _GONE) for path in self._stamps.keys() - found.keys()]
        self._forget_old(now)
        return [*gone, *sorted(self._worth_reading(changed, now), key=lambda item: -item[1].modified)]

    def _check_hinted(self, hints: Iterable[str], now: datetime) -> list[tuple[str, Stamp]]:
        self._hot = {path: until for path, until in self._hot.items() if until > now}
        families = self._by_session()
        alive = [file.path for id in self._processes if id in families for file in families[id].sessions]
        found: dict[str, Stamp] = {}
        for path in {*hints, *self._hot, *alive}:
            stamp = read_stamp(path)
            if stamp is not None and path.endswith(".jsonl"):
                found[path] = stamp
            elif stamp is None and path in self._stamps:
                found[path] = _GONE
            elif stamp is None and self._is_in_projects(path) and not Path(path).is_symlink():
                # A new folder: the watcher may have missed the files that were made in it at once.
                found |= dict(walk_folder(path))
        changed = [(path, stamp) for path, stamp in found.items() if self._stamps.get(path) != stamp]
        return self._worth_reading(changed, now)

    def _worth_reading(self, changed: list[tuple[str, Stamp]], now: datetime) -> list[tuple[str, Stamp]]:
        """Return the files that were read before or changed lately; of the others only note that they are there."""
        worth = []
        for path, stamp in changed:
            if path in self._files or stamp is _GONE or self._is_recent(path, stamp, now):
                worth.append((path, stamp))
            else:
                self._stamps[path] = stamp
        return worth

    def _is_recent(self, path: str, stamp: Stamp, now: datetime) -> bool:
        name = self._parse_path(path)
        limit = min(AGENT_RECENT, self._recent) if name and name.is_agent else self._recent
        if now.timestamp() - stamp.modified / 1e9 <= limit.total_seconds():
            return True
        # A file that was restored or copied has an old time and may have new lines. Looking takes 30 µs a file.
        file = self._files.get(path)
        last = file.last if file else read_last_time(path, stamp.size)
        return last is not None and now - last <= limit

    def _forget_old(self, now: datetime) -> None:
        """Drop the state of files that have not changed for long."""
        for path, file in list(self._files.items()):
            is_old = file.stamp is not None and not self._is_recent(path, file.stamp, now)
            if is_old and not file.is_working and file.session_id not in self._processes:
                del self._files[path]
                self._families = None
                self._active.discard(file.session_id)

    def _unread_files_of_processes(self, changed: list[tuple[str, Stamp]]) -> list[tuple[str, Stamp]]:
        """Return the files of living processes that were not read yet, however old they are."""
        missing = {id for id, process in self._processes.items() if process.life is not Liveness.DEAD}
        missing -= {id for id, family in self._by_session().items() if family.sessions}
        # A process that waits for its first prompt has no file yet: do not search again until there are more files.
        searched = (missing, len(self._stamps))
        if not missing or searched == self._searched:
            return []
        self._searched = searched
        already = {path for path, _ in changed}
        names = ((path, self._parse_path(path)) for path in self._stamps if path not in already)
        return [
            (path, self._stamps[path])
            for path, name in names
            if name and not name.is_agent and name.session_id in missing
        ]

    def _parse_path(self, path: str) -> SessionFileName | None:
        folder = self._folder_of(path)
        return None if folder is None else parse_session_path(path, str(folder.projects))

    def _folder_of(self, path: str) -> BoardFolder | None:
        """Return the folder that has a file."""
        return next((folder for folder in self.folders if _is_inside(path, folder.root)), None)

    def _is_in_projects(self, path: str) -> bool:
        return any(_is_inside(path, folder.projects) for folder in self.folders)

    # What their new lines say

    def _read_files(
        self, changed: list[tuple[str, Stamp]], now: datetime
    ) -> Iterator[tuple[FollowedFile, list[LiveEvent]]]:
        """Read files and yield each with the events of its new lines."""
        for path, stamp in changed:
            if stamp is _GONE:
                yield from self._remove(path, now)
                continue
            name = self._parse_path(path)
            if name is None:
                continue
            file, started = self._files.get(path), []
            if file is None:
                before = self._stamps.get(path)
                quiet_until = (before.size if before else 0) if self._has_begun else stamp.size
                file = FollowedFile(path, name, quiet_until, None if before else now)
                started = [file.event("session_started", now)] if self._has_begun else []
                self._files[path] = file
                self._families = None
            changed_at = now if self._has_begun else _modified(stamp)
            self._stamps[path], self._hot[path] = stamp, changed_at + HOT
            events = list(file.read(stamp, now))
            # The session of an old sub-agent's file is known only after its first line was read.
            yield file, [*(replace(event, session=file.session_id) for event in started), *events]

    def _remove(self, path: str, now: datetime) -> Iterator[tuple[FollowedFile, list[LiveEvent]]]:
        file = self._files.pop(path, None)
        self._families = None
        self._stamps.pop(path, None)
        self._hot.pop(path, None)
        if file is not None and file.is_shown:
            file.verdict = Verdict(Activity(ActivityKind.ENDED), EvidenceSource.TRANSCRIPT, now)
            yield file, [file.event("session_ended", now)]

    # What the sessions are doing

    def _refresh_processes_and_signals(self) -> set[str]:
        """Read the process registry and the hook signals; return the sessions for which something has changed."""
        found = [process for folder in self.folders for process in folder.processes.read()]
        processes = {process.session_id: process for process in sorted(found, key=process_rank)}
        before, self._processes = self._processes, processes
        changed = {id for id in processes.keys() | before.keys() if processes.get(id) != before.get(id)}
        signals = self._hook_signals.by_session()
        if signals is not self._signals:
            old, self._signals = self._signals, signals
            changed |= {id for id in signals.keys() | old.keys() if signals.get(id) != old.get(id)}
        return changed

    def _decide(self, affected: set[str], now: datetime) -> list[LiveEvent]:
        """Compute the verdicts that may have changed and return the events for those that have."""
        families = self._by_session()
        ids: Iterable[str] = (affected | self._active) & families.keys()
        # Verdicts on calm sessions change by the clock alone (`idle` after an hour), which need not be noticed at once.
        if self._decided_all_at is None or now - self._decided_all_at >= DECIDE_ALL_EVERY:
            self._decided_all_at, ids = now, families
        return [event for id in ids for event in self._decide_family(id, families[id], now)]

    def _decide_family(self, id: str, family: SessionFamily, now: datetime) -> list[LiveEvent]:
        verdicts: list[tuple[FollowedFile, Verdict]] = []
        for file in family.sessions:
            verdicts += self._decide_session(file, family.agents, now)
        if not family.sessions:
            verdicts = [(agent, _decide_agent(agent, self._evidence(agent, now), now)) for agent in family.agents]
        events = [event for file, verdict in verdicts for event in file.apply_verdict(verdict, now)]
        if any(verdict.activity.kind not in CALM for _, verdict in verdicts):
            self._active.add(id)
        else:
            self._active.discard(id)
        return events

    def _decide_session(
        self, file: FollowedFile, agents: list[FollowedFile], now: datetime
    ) -> list[tuple[FollowedFile, Verdict]]:
        """Return the verdicts on a session and on its sub-agents."""
        evidence = self._evidence(file, now)
        if evidence.process is not None and evidence.process.life is Liveness.LIVES:
            file.process_seen_at = now
        verdicts = {agent.path: _decide_agent(agent, evidence, now) for agent in agents}
        working = [agent for agent in agents if verdicts[agent.path].activity.kind not in RESTING]
        ordinary = [agent for agent in working if not agent.is_special]
        seen = file.process_seen_at
        # Lines long after the process was last seen come from another process, which is in no registry.
        has_other_writer = seen is not None and is_later(file.state.last_event_at, seen + REGISTRATION_GRACE)
        evidence = replace(
            evidence,
            agents=len(ordinary),
            agent_calls=tuple(call for agent in ordinary for call in agent.state.open_calls),
            was_seen=seen is not None and not has_other_writer,
            is_compacting=any((agent.name.agent_id or "").startswith("acompact") for agent in working),
        )
        own = decide(evidence, now)
        if own.activity.kind in RESTING:
            verdicts = {agent.path: _decide_agent(agent, evidence, now, is_over=True) for agent in agents}
        return [(file, own), *((agent, verdicts[agent.path]) for agent in agents)]

    def _by_session(self) -> dict[str, SessionFamily]:
        """Return the read files, grouped by session."""
        if self._families is None:
            self._families = {}
            for file in self._files.values():
                family = self._families.setdefault(file.session_id, SessionFamily([], []))
                (family.agents if file.name.is_agent else family.sessions).append(file)
        return self._families

    def _evidence(self, file: FollowedFile, now: datetime) -> Evidence:
        """Return what is known of the session of a file, but for its sub-agents."""
        folder = self._folder_of(file.path) or self.folders[0]
        return Evidence(
            file.state,
            self._processes.get(file.session_id),
            self._signals.get(file.session_id.lower(), {}),
            folder.settings.rules(file.metadata.cwd, now),
            has_registry=folder.processes.exists,
        )


def _decide_agent(agent: FollowedFile, session: Evidence, now: datetime, *, is_over: bool = False) -> Verdict:
    stop = session.signals.get("SubagentStop")
    if stop is not None and stop.agent == agent.name.agent_id and not is_later(agent.state.last_event_at, stop.at):
        return Verdict(Activity(ActivityKind.ENDED), EvidenceSource.HOOK, stop.at)
    return decide(Evidence(agent.state, session.process, rules=session.rules, is_over=is_over), now)


def _is_inside(path: str, folder: Path) -> bool:
    return path == str(folder) or path.startswith(str(folder).rstrip(os.sep) + os.sep)


def _modified(stamp: Stamp) -> datetime:
    return datetime.fromtimestamp(stamp.modified / 1e9, UTC)
