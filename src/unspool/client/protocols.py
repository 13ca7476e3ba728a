"""Whom the client may ask: the questions, the answers, and nobody.

A front end is a `Person`: it is asked whether a call may be made, which of some answers is meant, whether a plan is
good. Where nobody sits in front of it (`Nobody`), nothing is allowed that a rule does not allow, and questions stay
open.

[merged: model.py] What answers a request: the API (`unspool.api.connection.Connection`), or a script in this process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from unspool.api.connection import Count
from unspool.api.events import AnyEvent
from unspool.api.events import Json as events_Json

Json: TypeAlias = dict[str, Any]
Behaviour: TypeAlias = Literal["allow", "deny", "ask"]


class Wish(msgspec.Struct, frozen=True):
    """A call that somebody has to judge."""

    call_id: str
    tool: str
    input: Json
    target: str
    """What it is aimed at, in a few words."""
    agent: str | None = None
    """The agent that wants it."""


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What mode and rules say of a call."""

    behaviour: Behaviour
    why: str
    """In words: which rule, which mode, which part of a command."""
    rule: str | None = None
    source: str | None = None
    """Where the rule stands: user, project, local, flag, session, mode, built in."""
    suggestions: tuple[str, ...] = ()
    """Rules that would allow it from now on."""


class Permit(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer."""

    allowed: bool
    rule: str | None = None
    """A rule to keep, so that it is not asked again."""
    keep: Literal["once", "session", "local"] = "once"
    words: str = ""
    """What to tell the model instead, if it is not allowed."""
    mode: str | None = None
    """Another permission mode from now on."""
    stops: bool = False
    """Whether the turn ends here, if it is not allowed and nothing is told instead."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One question of `AskUserQuestion`."""

    question: str
    header: str = ""
    options: tuple[tuple[str, str], ...] = ()
    """Label and description."""
    several: bool = False


class Person(Protocol):
    """Who sits in front of the client."""

    async def permit(self, wish: Wish, ruling: Ruling) -> Permit:
        """Say whether a call may be made."""

    async def choose(self, choices: tuple[Choice, ...]) -> dict[str, str] | None:
        """Answer questions, by question; None: they are not answered."""

    async def approve(self, plan: str) -> Permit:
        """Say whether a plan is good; `mode` is how to go on."""


class Nobody:
    """Who is there in a headless run."""

    async def permit(self, wish: Wish, ruling: Ruling) -> Permit:
        """Allow nothing."""
        return Permit(allowed=False)

    async def choose(self, choices: tuple[Choice, ...]) -> dict[str, str] | None:
        """Answer nothing."""
        return None

    async def approve(self, plan: str) -> Permit:
        """Approve nothing."""
        return Permit(allowed=False)


class Model(Protocol):
    """Who is asked."""

    def events(self, body: events_Json, betas: Iterable[str] = ()) -> AsyncGenerator[AnyEvent, None]:
        """Yield what happens until the answer ends (`Ended`) or breaks off (`Broken`); `ApiFailed` if there is none."""

    async def count(self, body: events_Json, betas: Iterable[str] = ()) -> Count:
        """Return how many input tokens a request is; an estimate that says so, if nobody counts."""
