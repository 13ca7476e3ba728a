"""Defines a row of the live board, its order on the board and its JSON object."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from unspool.live.state.events import format_time
from unspool.live.state.model import BoardGroup, PendingCall, SessionStatus, Verdict, describe_verdict


class BoardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session, or one of its sub-agents, as the board shows it."""

    session_id: str
    agent_id: str | None = None
    path: str = ""
    """Empty while the session has no file yet."""
    title: str = ""
    project: str | None
    cwd: str | None
    branch: str | None = None
    model: str | None = None
    status: SessionStatus
    verdict: Verdict
    last: datetime | None
    """When the last line was written."""
    goal: str = ""
    recent_output: str = ""
    pending: PendingCall | None = None
    asking: PendingCall | None = None
    """The call that waits for the user, of the session or of one of its agents."""
    tokens_5m: int = 0
    tokens_1h: int = 0
    context_tokens: int | None = None
    agents: int = 0
    """How many of its sub-agents are working."""
    commands: int = 0
    """How many of its commands run in the background."""
    project_hash: str | None = None
    group: BoardGroup
    started: datetime | None = None
    pid: int | None = None
    is_alive: bool = False
    """Whether the process with that pid is known to be the session's own."""


def row_sort_key(row: BoardRow) -> tuple[int, float, str, str]:
    """Return the key that sorts rows by group, then the latest first; of those that need the user the oldest first."""
    if row.group is BoardGroup.NEEDS_YOU:
        time = row.verdict.since.timestamp() if row.verdict.since else 0.0
    else:
        time = -(row.last.timestamp() if row.last else 0.0)
    return list(BoardGroup).index(row.group), time, row.session_id, row.agent_id or ""


def row_to_document(row: BoardRow, now: datetime) -> dict[str, Any]:
    """Return a row as `unspool watch --once --json` writes it."""
    pending, activity = row.pending, row.verdict.activity
    return {
        "session_id": row.session_id,
        "agent_id": row.agent_id,
        "title": row.title,
        "project": row.project,
        "project_key": row.project_hash,
        "cwd": row.cwd,
        "branch": row.branch,
        "model": row.model,
        "group": row.group.value,
        "status": row.status.value,
        "kind": activity.kind.value,
        "detail": describe_verdict(row.verdict, now),
        "source": row.verdict.source.value,
        "probably": row.verdict.probably,
        "since": format_time(row.verdict.since),
        "tool": activity.tool,
        "target": activity.target or None,
        "pending": {"id": pending.id, "name": pending.name, "input": pending.input} if pending else None,
        "goal": row.goal,
        "recent_output": row.recent_output,
        "started_at": format_time(row.started),
        "ended_at": format_time(row.last),
        "context_tokens": row.context_tokens,
        "cache_5m_tokens": row.tokens_5m,
        "cache_1h_tokens": row.tokens_1h,
        "agents": row.agents,
        "background_commands": row.commands,
        "pid": row.pid,
        "path": row.path or None,
    }


def row_to_json(row: BoardRow, now: datetime) -> dict[str, Any]:
    """Return a row as the page's JSON and the input of `unspool watch --notify` have it."""
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
        "detail": describe_verdict(row.verdict, now),
        "source": row.verdict.source.value,
        "since": format_time(row.verdict.since),
        "probably": row.verdict.probably,
        "kind": row.verdict.activity.kind.value,
        "tool": row.verdict.activity.tool,
        "target": row.verdict.activity.target or None,
        "group": row.group.value,
        "title": row.title,
        "last": format_time(row.last),
        "started": format_time(row.started),
        "contextTokens": row.context_tokens,
        "agents": row.agents,
        "backgroundCommands": row.commands,
        "pid": row.pid,
        "path": row.path or None,
    }
