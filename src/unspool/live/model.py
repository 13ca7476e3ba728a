"""What a session is doing, as data and in words. Pure.

Rules
  1. How long something has lasted is never stored: words are made for a time of the clock.
  2. What a verdict rests on is a part of it: its source, and whether it is only probable.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any

import msgspec


class Status(Enum):
    """The four statuses, by the rules of `status.py`."""

    APPROVAL = "waiting_for_approval"
    WORKING = "working"
    INPUT = "waiting_for_input"
    IDLE = "idle"


class Kind(Enum):
    """What a session is doing."""

    PERMISSION = "permission"
    QUESTION = "question"
    ERROR = "error"
    RUNNING = "running"
    THINKING = "thinking"
    AGENTS = "agents"
    RETRYING = "retrying"
    COMPACTING = "compacting"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"
    ENDED = "ended"
    IDLE = "idle"


class Source(Enum):
    """What a verdict rests on, the surest first."""

    REGISTRY = "registry"
    HOOK = "hook"
    TRANSCRIPT = "transcript"


class Group(Enum):
    """Where the board has a session, in this order."""

    NEEDS_YOU = "Needs you"
    WORKING = "Working"
    WAITING = "Waiting"
    BACKGROUND = "Background"
    ENDED = "Ended"
    IDLE = "Idle"


class Detail(msgspec.Struct, frozen=True):
    """What a session is doing."""

    kind: Kind
    tool: str | None = None
    target: str = ""
    """What the tool is aimed at, on one line."""
    count: int = 0
    """How many sub-agents are at work."""
    words: str = ""
    """A question, an error, the program's own name for what it waits for."""


class Pending(msgspec.Struct, frozen=True):
    """A tool call without a result."""

    id: str
    name: str
    target: str = ""
    input: Any = None
    """Long texts in it are cut."""
    at: datetime | None = None
    words: str = ""
    """The question, if it asks one."""
    runs: bool = False
    """Whether it was seen to be at work."""


class Verdict(msgspec.Struct, frozen=True):
    """What a session is doing, how that is known, since when, and whether it is only probable."""

    detail: Detail
    source: Source = Source.TRANSCRIPT
    since: datetime | None = None
    probably: bool = False


def say(verdict: Verdict, now: datetime) -> str:
    """Return a verdict in words: `running Bash 12 s: make test`."""
    words = _words(verdict.detail, verdict.since, now)
    return f"probably {words}" if verdict.probably else words


def needs_you(detail: Detail) -> bool:
    """Tell whether somebody has to do something before it goes on."""
    return detail.kind in (Kind.PERMISSION, Kind.QUESTION, Kind.ERROR)


def elapsed(since: datetime | None, now: datetime) -> str:
    """Return how long something has lasted: `12 s`, `3 min`, `2 h 5 min`, `3 d`; nothing if that is not known."""
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


def _words(detail: Detail, since: datetime | None, now: datetime) -> str:
    match detail.kind:
        case Kind.PERMISSION if detail.tool in PLAN_TOOLS:
            return "asking to approve the plan"
        case Kind.PERMISSION:
            asked = " ".join(word for word in (detail.tool, detail.target) if word) or detail.words
            return f"asking permission for {asked}" if asked else "asking permission"
        case Kind.QUESTION:
            return f"asking a question: {detail.words}" if detail.words else "asking a question"
        case Kind.RUNNING:
            running = " ".join(word for word in ("running", detail.tool, elapsed(since, now)) if word)
            return f"{running}: {detail.target}" if detail.target else running
        case Kind.AGENTS:
            return f"sub-agents {detail.count}"
        case Kind.ERROR | Kind.RETRYING | Kind.ENDED:
            return f"{detail.kind.value}: {detail.words}" if detail.words else detail.kind.value
        case kind:
            return str(kind.value)


PLAN_TOOLS = frozenset({"ExitPlanMode", "exit_plan_mode"})
QUESTION_TOOLS = frozenset({"AskUserQuestion"})
AGENT_TOOLS = frozenset({"Task", "Agent"})
