"""The board: every session that works or did lately, and what it is doing. A config folder in, rows and events out.

Rules
  1. What has changed is read, and nothing else; an old session is not read at all until it changes. It is idle.
  2. Files are looked at (`stat`) when something hints at them, while they are hot, and all of them once in a while:
     hints may be missed, the look may not.
  3. The first refresh tells where each session stands, not what led to it. After that each line is told once; a file
     that was rewritten starts again, and what was told is not told again.
  4. Rows and refreshes may be asked for from several threads.

[merged: rows.py] The rows of the board: a followed file, or a process without one, in; a row out; and rows in the seed's own names.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.live.approval_settings import Allowed
from unspool.live.events import Event, text_of
from unspool.live.evidence import Evidence, Life, Running, Signal
from unspool.live.followed_file import RESTING, Followed
from unspool.live.hook_signals import Signals
from unspool.live.model import Detail, Group, Kind, Pending, Source, Status, Verdict, say
from unspool.live.process_registry import Registry
from unspool.live.session_files import Name, below, named, projects_of, stamp_at, walk
from unspool.live.status import State, status_at
from unspool.live.verdict import Known, group_of, judged, orphan, verdict
from unspool.paths import project_name
from unspool.read.scan import Stamp, config_around


class Row(msgspec.Struct, frozen=True):
    """A session, or one of its sub-agents."""

    session_id: str
    agent_id: str | None
    path: str
    """Empty while the session has no file yet."""
    title: str
    project: str | None
    cwd: str | None
    branch: str | None
    model: str | None
    status: Status
    detail: Detail
    source: Source
    since: datetime | None
    last: datetime | None
    goal: str
    recent_output: str
    pending: Pending | None
    tokens_5m: int
    tokens_1h: int
    context_tokens: int | None
    agents: int
    """How many of its sub-agents are at work."""
    project_hash: str | None
    probably: bool
    group: Group
    started: datetime | None = None
    pid: int | None = None
    entrypoint: str | None = None

    @property
    def verdict(self) -> Verdict:
        """What it is doing and how that is known, as one."""
        return Verdict(self.detail, self.source, self.since, self.probably)


def row_of(file: Followed, agents: int, running: Running | None, now: datetime) -> Row:
    """Return the row of a file that was judged."""
    about, state, found = file.about, file.state, file.verdict
    assert found is not None
    is_session = not file.name.is_agent
    return Row(
        session_id=file.session_id,
        agent_id=file.name.agent_id,
        path=file.path,
        title=about.title,
        project=project_name(about.cwd, file.name.project),
        cwd=about.cwd,
        branch=about.branch,
        model=about.model,
        status=status_at(state, now),
        detail=found.detail,
        source=found.source,
        since=found.since,
        last=state.last or _modified(file.stamp),
        goal=about.goal or about.queued,
        recent_output=about.output,
        pending=state.open[-1] if state.open else None,
        tokens_5m=about.tokens_5m,
        tokens_1h=about.tokens_1h,
        context_tokens=about.context_tokens,
        agents=agents if is_session else 0,
        project_hash=file.name.project,
        probably=found.probably,
        group=group_of(found, state),
        started=about.started,
        pid=running.pid if running and is_session else None,
        entrypoint=running.entrypoint if running and is_session else None,
    )


def row_of_process(running: Running, found: Verdict) -> Row:
    """Return the row of a process that waits for its first prompt: it has no file yet."""
    return Row(
        session_id=running.session_id, agent_id=None, path="", title="", project=project_name(running.cwd, None),
        cwd=running.cwd, branch=None, model=None, status=Status.IDLE, detail=found.detail, source=found.source,
        since=found.since, last=running.updated, goal="", recent_output="", pending=None, tokens_5m=0, tokens_1h=0,
        context_tokens=None, agents=0, project_hash=None, probably=found.probably,
        group=group_of(found, State()), pid=running.pid, entrypoint=running.entrypoint,
    )  # fmt: skip


def urgency(row: Row) -> tuple[int, float, str, str]:
    """Return what sorts rows: by group; of those who need you whoever has waited longest comes first."""
    if row.group is Group.NEEDS_YOU:
        time = row.since.timestamp() if row.since else 0.0
    else:
        time = -(row.last.timestamp() if row.last else 0.0)
    return list(Group).index(row.group), time, row.session_id, row.agent_id or ""


def plain(row: Row, now: datetime) -> dict[str, Any]:
    """Return a row as JSON has it, by the names of the session metadata."""
    pending = row.pending
    return {
        "sessionId": row.session_id,
        "agentId": row.agent_id,
        "cwd": row.cwd,
        "projectName": row.project,
        "projectHash": row.project_hash,
        "gitBranch": row.branch,
        "goal": row.goal,
        "recentOutput": row.recent_output,
        "model": row.model,
        "isSubagent": row.agent_id is not None,
        "pendingToolUse": {"id": pending.id, "name": pending.name, "input": pending.input} if pending else None,
        "tokenUsage": {"ephemeral5mTokens": row.tokens_5m, "ephemeral1hTokens": row.tokens_1h},
        "status": row.status.value,
        "detail": say(row.verdict, now),
        "source": row.source.value,
        "since": text_of(row.since),
        "probably": row.probably,
        "kind": row.detail.kind.value,
        "tool": row.detail.tool,
        "target": row.detail.target or None,
        "group": row.group.value,
        "title": row.title,
        "last": text_of(row.last),
        "started": text_of(row.started),
        "contextTokens": row.context_tokens,
        "agents": row.agents,
        "pid": row.pid,
        "path": row.path or None,
    }


def _modified(stamp: Stamp | None) -> datetime | None:
    return datetime.fromtimestamp(stamp.modified / 1e9, UTC) if stamp else None


__all__ = ["Board", "Detail", "Event", "Group", "Kind", "Pending", "Row", "Source", "Status", "Verdict"]

RECENT = timedelta(days=1)
AGENTS = timedelta(hours=1)
"""How long after its last line a sub-agent is still looked at."""
HOT = timedelta(minutes=2)
"""How long after a change a file is looked at with every refresh."""
AGAIN = timedelta(seconds=5)
"""How often the verdict on a session that is calm is looked at."""
CALM = (Kind.WAITING, Kind.INTERRUPTED, Kind.ERROR, *RESTING)
"""What lasts until somebody does something."""
_GONE = Stamp(-1, 0, 0, 0)


class Family(NamedTuple):
    """The files of a session: its own, more than one if it was copied, and those of its agents."""

    sessions: list[Followed]
    agents: list[Followed]


class Board:
    """The sessions of a config folder as they are now."""

    def __init__(
        self,
        root: Path,
        signals: Path,
        *,
        clock: Callable[[], datetime],
        recent: timedelta = RECENT,
        registry: Path | None = None,
    ) -> None:
        config = root if (root / "projects").is_dir() else config_around(root) or root
        self.root, self.signals, self.registry = root, signals, registry or config / "sessions"
        self.projects = projects_of(root)
        self._clock, self._recent = clock, recent
        self._processes, self._hooks, self._allowed = Registry(self.registry), Signals(signals), Allowed(config)
        self._stamps: dict[str, Stamp] = {}
        """Every file there is."""
        self._files: dict[str, Followed] = {}
        """Those that were read."""
        self._running: dict[str, Running] = {}
        self._signals: dict[str, dict[str, Signal]] = {}
        self._hot: dict[str, datetime] = {}
        self._families: dict[str, Family] | None = None
        """Files by session; nothing when they have to be sorted again."""
        self._awake: set[str] = set()
        """The sessions that do something, themselves or with an agent."""
        self._sought: tuple[set[str], int] = (set(), 0)
        """Which sessions no file was found for, among how many."""
        self._begun = False
        self._judged_all: datetime | None = None
        self._lock = Lock()

    @property
    def unread(self) -> int:
        """How many sessions have been idle for so long that they were not read."""
        with self._lock:
            names = (self._name(path) for path in self._stamps if path not in self._files)
            return sum(1 for name in names if name is not None and not name.is_agent)

    @property
    def is_awake(self) -> bool:
        """Whether any session does something that may change without a line being written."""
        return bool(self._awake)

    def now(self) -> datetime:
        """Return the time by the board's clock."""
        return self._clock()

    def refresh(self, hints: Iterable[Path] | None = None) -> list[Event]:
        """Look at everything, or at what is hinted at and what is hot; return what has happened."""
        with self._lock:
            now = self._clock()
            changed = self._walk(now) if hints is None or not self._begun else self._look_at(map(str, hints), now)
            stirred = self._ask_around()
            read = list(self._read([*changed, *self._alive_and_unread(changed)], now))
            news = self._judge(stirred | {file.session_id for file, _ in read}, now)
            self._begun = True
        lines = [(file, event) for file, events in read for event in events if not file.is_special]
        return [*(replace(event, status=file.status, verdict=file.verdict) for file, event in lines), *news]

    def rows(self, now: datetime, only: Container[str] | None = None) -> list[Row]:
        """Return what the board shows, or as much of it as is about some sessions, those first who need you."""
        with self._lock:
            rows = [
                row_of(file, sum(agent.works and agent.is_shown for agent in family.agents), self._running.get(id), now)
                for id, family in self._sorted().items()
                if only is None or id in only
                for file in (*family.sessions, *family.agents)
                if file.is_shown and file.verdict is not None
            ]
            known = {row.session_id for row in rows}
            for id, running in self._running.items():
                if id not in known and running.life is not Life.DEAD and (only is None or id in only):
                    found = verdict(Evidence(State(), running, self._signals.get(id.lower(), {})), now)
                    rows.append(row_of_process(running, found))
        return sorted(rows, key=urgency)

    # What has changed

    def _walk(self, now: datetime) -> list[tuple[str, Stamp]]:
        self.projects = projects_of(self.root)
        found = dict(walk(self.projects))
        changed = [(path, stamp) for path, stamp in found.items() if self._stamps.get(path) != stamp]
        if not self._begun:
            self._hooks.clean(now)
            self._stamps = found
        gone = [(path, _GONE) for path in self._stamps.keys() - found.keys()]
        self._forget(now)
        return [*gone, *sorted(self._worth_reading(changed, now), key=lambda one: -one[1].modified)]

    def _look_at(self, hints: Iterable[str], now: datetime) -> list[tuple[str, Stamp]]:
        self._hot = {path: until for path, until in self._hot.items() if until > now}
        families = self._sorted()
        alive = [file.path for id in self._running if id in families for file in families[id].sessions]
        found: dict[str, Stamp] = {}
        for path in {*hints, *self._hot, *alive}:
            stamp = stamp_at(path)
            if stamp is not None and path.endswith(".jsonl"):
                found[path] = stamp
            elif stamp is None and path in self._stamps:
                found[path] = _GONE
            elif stamp is None and path.startswith(str(self.projects)) and not Path(path).is_symlink():
                found |= dict(below(path))
        changed = [(path, stamp) for path, stamp in found.items() if self._stamps.get(path) != stamp]
        return self._worth_reading(changed, now)

    def _worth_reading(self, changed: list[tuple[str, Stamp]], now: datetime) -> list[tuple[str, Stamp]]:
        """Return what was read before or has changed lately; of the rest remember that it is there."""
        worth = []
        for path, stamp in changed:
            if path in self._files or stamp is _GONE or self._is_recent(path, stamp, now):
                worth.append((path, stamp))
            else:
                self._stamps[path] = stamp
        return worth

    def _is_recent(self, path: str, stamp: Stamp, now: datetime) -> bool:
        name = self._name(path)
        limit = min(AGENTS, self._recent) if name and name.is_agent else self._recent
        return now.timestamp() - stamp.modified / 1e9 <= limit.total_seconds()

    def _forget(self, now: datetime) -> None:
        """Let go of what has rested for long."""
        for path, file in list(self._files.items()):
            is_old = file.stamp is not None and not self._is_recent(path, file.stamp, now)
            if is_old and not file.works and file.session_id not in self._running:
                del self._files[path]
                self._families = None
                self._awake.discard(file.session_id)

    def _alive_and_unread(self, changed: list[tuple[str, Stamp]]) -> list[tuple[str, Stamp]]:
        """Return the files of living processes that were not read yet."""
        wanted = {id for id, running in self._running.items() if running.life is not Life.DEAD}
        wanted -= {id for id, family in self._sorted().items() if family.sessions}
        already = {path for path, _ in changed}
        sought = (wanted, len(self._stamps))
        if not wanted or sought == self._sought:  # a process that waits for its first prompt has no file yet
            return []
        self._sought = sought
        names = ((path, self._name(path)) for path in self._stamps if path not in already)
        ours = [path for path, name in names if name and not name.is_agent and name.session_id in wanted]
        return [(path, self._stamps[path]) for path in ours]

    def _name(self, path: str) -> Name | None:
        return named(path, str(self.projects))

    # What it says

    def _read(self, changed: list[tuple[str, Stamp]], now: datetime) -> Iterator[tuple[Followed, list[Event]]]:
        """Read files and yield each with what its lines tell."""
        for path, stamp in changed:
            if stamp is _GONE:
                yield from self._take_away(path, now)
                continue
            name = self._name(path)
            if name is None:
                continue
            file, events = self._files.get(path), []
            if file is None:
                before = self._stamps.get(path)
                known = (before.size if before else 0) if self._begun else stamp.size
                file = Followed(path, name, known, None if before else now)
                events = [file.event("session_started", now)] if self._begun else []
                self._files[path] = file
                self._families = None
            changed_at = now if self._begun else datetime.fromtimestamp(stamp.modified / 1e9, UTC)
            self._stamps[path], self._hot[path] = stamp, changed_at + HOT
            told = list(file.read(stamp, now))
            yield file, [*(replace(event, session=file.session_id) for event in events), *told]

    def _take_away(self, path: str, now: datetime) -> Iterator[tuple[Followed, list[Event]]]:
        file = self._files.pop(path, None)
        self._families = None
        self._stamps.pop(path, None)
        self._hot.pop(path, None)
        if file is not None and file.is_shown:
            file.verdict = Verdict(Detail(Kind.ENDED), Source.TRANSCRIPT, now)
            yield file, [file.event("session_ended", now)]

    # What that means

    def _ask_around(self) -> set[str]:
        """Ask processes and hooks; return the sessions of which they say something else than before."""
        running = {one.session_id: one for one in self._processes.processes()}
        stirred = {id for id in running.keys() | self._running.keys() if running.get(id) != self._running.get(id)}
        signals = self._hooks.by_session()
        if signals is not self._signals:
            before, self._signals = self._signals, signals
            stirred |= {id for id in signals.keys() | before.keys() if signals.get(id) != before.get(id)}
        self._running = running
        return stirred

    def _judge(self, stirred: set[str], now: datetime) -> list[Event]:
        """Look at the verdicts that may have changed and return what is new."""
        families = self._sorted()
        wanted: Iterable[str] = (stirred | self._awake) & families.keys()
        if self._judged_all is None or now - self._judged_all >= AGAIN:
            self._judged_all, wanted = now, families
        events: list[Event] = []
        for id in wanted:
            events += self._judge_family(id, families[id], now)
        return events

    def _judge_family(self, id: str, family: Family, now: datetime) -> list[Event]:
        verdicts: list[tuple[Followed, Verdict]] = []
        for file in family.sessions:
            verdicts += judged(file, family.agents, self._known(file, now), now)
        if not family.sessions:
            verdicts = [(agent, orphan(agent, self._known(agent, now), now)) for agent in family.agents]
        events = [event for file, found in verdicts for event in file.hear(found, now)]
        if any(found.detail.kind not in CALM for _, found in verdicts):
            self._awake.add(id)
        else:
            self._awake.discard(id)
        return events

    def _sorted(self) -> dict[str, Family]:
        """Return the files by session."""
        if self._families is None:
            self._families = {}
            for file in self._files.values():
                family = self._families.setdefault(file.session_id, Family([], []))
                (family.agents if file.name.is_agent else family.sessions).append(file)
        return self._families

    def _known(self, file: Followed, now: datetime) -> Known:
        signals = self._signals.get(file.session_id.lower(), {})
        rules = self._allowed.rules(file.about.cwd, now)
        return Known(self._running.get(file.session_id), signals, rules, self._processes.is_kept)
