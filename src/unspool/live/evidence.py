"""What a verdict may rest on: a process, signals of hooks, lines, and what the settings allow. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from unspool.live.approval import Rules
from unspool.live.model import Pending
from unspool.live.status import State


class Life(Enum):
    """Whether a process lives."""

    LIVES = "lives"
    LIKELY = "likely"
    """There is one with that pid, and nobody knows whether it is the one."""
    ELSEWHERE = "elsewhere"
    """On another machine, or in another container."""
    DEAD = "dead"


class Running(msgspec.Struct, frozen=True):
    """A process that runs a session, or ran it."""

    pid: int
    session_id: str
    life: Life
    status: str | None = None
    """`idle`, `busy`, `waiting`; versions before 2.1.200 do not say."""
    waiting_for: str | None = None
    since: datetime | None = None
    """When the status last changed."""
    updated: datetime | None = None
    version: str | None = None
    cwd: str | None = None
    entrypoint: str | None = None


class Signal(msgspec.Struct, frozen=True):
    """The last that a hook said of one event."""

    event: str
    at: datetime
    tool: str | None = None
    input: Any = None
    call: str | None = None
    """The id of the tool call."""
    agent: str | None = None
    """The sub-agent that it happened in."""
    kind: str | None = None
    """Of a notification."""
    message: str = ""
    mode: str | None = None
    """The permission mode."""
    agents: int = 0
    """How many sub-agents were at work when the turn stopped."""


class Evidence(msgspec.Struct, frozen=True):
    """All that is known of a session, or of one sub-agent."""

    state: State
    running: Running | None = None
    signals: Mapping[str, Signal] = {}
    """By event."""
    rules: Rules = Rules()
    agents: int = 0
    """How many of its sub-agents are at work."""
    calls: tuple[Pending, ...] = ()
    """Open calls of those."""
    is_registered: bool = False
    """Whether the program keeps a registry of its processes here."""
    was_seen: bool = False
    """Whether its process was seen alive before."""
    is_over: bool = False
    """Of a sub-agent: whether its session has ended."""
    compacts: bool = False
    """Whether the program's own agent for compactions is at work."""
