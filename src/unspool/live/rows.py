"""The rows of the board: a followed file, or a process without one, in; a row out; and rows in the seed's own names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from unspool.live.detail import Detail, Group, Pending, Source, Status, Verdict, say
from unspool.live.events import text_of
from unspool.live.evidence import Running
from unspool.live.followed import Followed
from unspool.live.status import State, status_at
from unspool.live.verdict import group_of
from unspool.paths import project_name
from unspool.read.scan import Stamp


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
