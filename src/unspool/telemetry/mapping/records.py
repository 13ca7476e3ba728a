"""Defines what the mapping needs of a session: its lines, what they amount to, and its billed requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unspool.format import Entry
from unspool.graph import Agent, ToolCall, Turn
from unspool.prices import Bill, Response


class BilledRequest(NamedTuple):
    """A response that counts, once in all files, and what it cost."""

    file: str
    """The path of the file with the copy that counts."""
    project: str | None
    response: Response
    bill: Bill


class AgentRecords(NamedTuple):
    """An agent and the lines of its file."""

    file: str
    agent: Agent
    entries: Sequence[Entry]


class SessionCopy(NamedTuple):
    """A file of a session; nearly every session has one."""

    file: str
    key: str
    """The key of its project: what tells copies of a session apart on any machine."""
    project: str | None
    title: str
    branch: str | None
    version: str | None
    entries: Sequence[Entry]
    turns: Sequence[Turn]
    calls: Sequence[ToolCall]
    agents: Sequence[AgentRecords]


class TracedSession(NamedTuple):
    """A session: all files of its id, and the requests that it pays for. A deleted one may have requests only."""

    id: str
    copies: Sequence[SessionCopy]
    requests: Sequence[BilledRequest]
    changed: int
    """When its files were last changed, in milliseconds since 1970: for a session whose lines have no times."""
