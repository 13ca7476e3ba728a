"""Defines the data types of a session's live state, and puts a verdict into words.

Rules
  1. How long something has lasted is never stored: it is computed for a given time when it is shown.
  2. A verdict carries what it rests on: its source, and whether it is only probable.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

PLAN_TOOLS = frozenset({"ExitPlanMode", "exit_plan_mode"})
QUESTION_TOOLS = frozenset({"AskUserQuestion"})


class SessionStatus(Enum):
    """One of four statuses that other tools know too, by the rules in `status.py`."""

    APPROVAL = "waiting_for_approval"
    WORKING = "working"
    INPUT = "waiting_for_input"
    IDLE = "idle"


class ActivityKind(Enum):
    """What a session is doing, in one word."""

    PERMISSION = "permission"
    QUESTION = "question"
    ERROR = "error"
    RUNNING = "running"
    THINKING = "thinking"
    AGENTS = "agents"
    BACKGROUND = "background"
    """The turn is over, and commands run in the background."""
    RETRYING = "retrying"
    COMPACTING = "compacting"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"
    ENDED = "ended"
    IDLE = "idle"


RESTING = (ActivityKind.IDLE, ActivityKind.ENDED)


class EvidenceSource(Enum):
    """What a verdict rests on, the most reliable source first."""

    REGISTRY = "registry"
    HOOK = "hook"
    TRANSCRIPT = "transcript"


class BoardGroup(Enum):
    """The heading under which the board lists a session, in the order of the board."""

    NEEDS_YOU = "Needs you"
    WORKING = "Working"
    WAITING = "Waiting"
    BACKGROUND = "Background"
    ENDED = "Ended"
    IDLE = "Idle"


class Liveness(Enum):
    """Whether the process of a session is alive."""

    LIVES = "lives"
    LIKELY = "likely"
    """A process has that pid, but it may be another one."""
    ELSEWHERE = "elsewhere"
    """It is on another machine, or in another container."""
    DEAD = "dead"


class Activity(msgspec.Struct, frozen=True):
    """What a session is doing, with the tool, the sub-agents or the message that belong to it."""

    kind: ActivityKind
    tool: str | None = None
    target: str = ""
    """What the tool works on, on one line."""
    count: int = 0
    """How many sub-agents are working, or how many commands run in the background."""
    message: str = ""
    """A question, an error, or Claude Code's own name for what it waits for."""


class PendingCall(msgspec.Struct, frozen=True):
    """A tool call that has no result yet."""

    id: str
    name: str
    target: str = ""
    input: Any = None
    """Long texts in it are cut."""
    opened_at: datetime | None = None
    question: str = ""
    """What it asks the user, if it asks a question."""
    is_running: bool = False
    """Whether a progress line showed that it runs."""


class SessionProcess(msgspec.Struct, frozen=True):
    """A Claude Code process that runs a session, or ran it, as its registry file describes it."""

    pid: int
    session_id: str
    life: Liveness
    status: str | None = None
    """`idle`, `busy`, `waiting`, or `shell`: idle while commands run in the background. Not before 2.1.200."""
    waiting_for: str | None = None
    since: datetime | None = None
    """When the status last changed."""
    updated: datetime | None = None
    cwd: str | None = None


class HookSignal(msgspec.Struct, frozen=True):
    """The last call of our hook for one event of a session."""

    event: str
    at: datetime
    tool: str | None = None
    input: Any = None
    call: str | None = None
    """The id of the tool call."""
    agent: str | None = None
    """The sub-agent in which it happened."""
    kind: str | None = None
    """The type of a notification."""
    message: str = ""
    mode: str | None = None
    """The permission mode."""
    agents: int = 0
    """How many sub-agents were working when the turn stopped."""
    commands: int | None = None
    """How many commands were running in the background then; None: this version does not say."""


class Verdict(msgspec.Struct, frozen=True):
    """What a session is doing, how that is known, since when, and whether it is only probable."""

    activity: Activity
    source: EvidenceSource = EvidenceSource.TRANSCRIPT
    since: datetime | None = None
    probably: bool = False


def describe_verdict(verdict: Verdict, now: datetime) -> str:
    """Return a verdict in words, such as `running Bash 12 s: make test`."""
    text = _describe_activity(verdict.activity, verdict.since, now)
    return f"probably {text}" if verdict.probably else text


def needs_user(activity: Activity) -> bool:
    """Return whether the session cannot continue until the user does something."""
    return activity.kind in (ActivityKind.PERMISSION, ActivityKind.QUESTION, ActivityKind.ERROR)


def format_elapsed(since: datetime | None, now: datetime) -> str:
    """Return how long something has lasted (`12 s`, `3 min`, `2 h 5 min`, `3 d`); empty if that is unknown."""
    if since is None:
        return ""
    seconds = max(0, int((now - since).total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if hours == 0:
        return f"{minutes} min"
    if days == 0:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d"


def _describe_activity(activity: Activity, since: datetime | None, now: datetime) -> str:
    match activity.kind:
        case ActivityKind.PERMISSION if activity.tool in PLAN_TOOLS:
            return "asking to approve the plan"
        case ActivityKind.PERMISSION:
            request = " ".join(part for part in (activity.tool, activity.target) if part) or activity.message
            return f"asking permission for {request}" if request else "asking permission"
        case ActivityKind.QUESTION:
            return f"asking a question: {activity.message}" if activity.message else "asking a question"
        case ActivityKind.RUNNING:
            running = " ".join(part for part in ("running", activity.tool, format_elapsed(since, now)) if part)
            return f"{running}: {activity.target}" if activity.target else running
        case ActivityKind.AGENTS:
            return f"sub-agents {activity.count}"
        case ActivityKind.BACKGROUND if activity.count > 1:
            return f"background commands {activity.count}"
        case ActivityKind.BACKGROUND:
            running = " ".join(part for part in ("background command", format_elapsed(since, now)) if part)
            return f"{running}: {activity.target}" if activity.target else running
        case ActivityKind.ERROR | ActivityKind.RETRYING | ActivityKind.ENDED if activity.message:
            return f"{activity.kind.value}: {activity.message}"
        case kind:
            return str(kind.value)
