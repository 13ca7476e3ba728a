"""How a conversation is asked for: which session, how it is led, and in which world. Data only.

[merged: limits.py] When a turn has had enough: what was set and what was used in, the limit that is reached out. Pure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple
from uuid import uuid4

import msgspec

from unspool.api.errors import wait
from unspool.client.loop.request import Manner
from unspool.client.protocols import Model


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn may use; None: as much as it likes."""

    steps: int | None = None
    tokens: int | None = None
    cost_micros: int | None = None
    seconds: float | None = None

    def reached(
        self, steps: int, tokens: int, cost_micros: int, seconds: float
    ) -> Literal["max_steps", "max_total_tokens", "max_cost", "max_seconds"] | None:
        """Return the limit at which no further request goes out."""
        if self.steps is not None and steps >= self.steps:
            return "max_steps"
        if self.tokens is not None and tokens >= self.tokens:
            return "max_total_tokens"
        if self.cost_micros is not None and cost_micros >= self.cost_micros:
            return "max_cost"
        if self.seconds is not None and seconds >= self.seconds:
            return "max_seconds"
        return None


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Which session: a new one, or one that is gone on with."""

    session_id: str | None = None
    """Of a new session, or of the copy; None: a new id."""
    resume: Path | None = None
    """The file of a session to go on with."""
    leaf: str | None = None
    """A line of it to go on from; None: where it was left."""
    fork: bool = False
    """Whether to go on in a copy."""
    force: bool = False
    """Whether to go on with a session that seems to be in use."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a conversation is led."""

    model: str
    keeps_model: bool = False
    """Whether a session that is gone on with keeps its model, where that is still offered."""
    mode: str | None = None
    """The permission mode; None: as the session had it, `default` in a new one."""
    max_steps: int | None = None
    max_total_tokens: int | None = None
    max_cost_micros: int | None = None
    max_seconds: float | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    allowed: tuple[str, ...] = ()
    disallowed: tuple[str, ...] = ()
    added: tuple[Path, ...] = ()
    window: int | None = None
    thinking: int | None = None
    max_answer_tokens: int | None = None
    trusted: bool = False
    tools: tuple[str, ...] | None = None
    interactive: bool = False
    """Whether somebody types the prompts: then they are remembered in `history.jsonl`."""

    @property
    def limits(self) -> Limits:
        """What one turn may use."""
        return Limits(
            steps=self.max_steps,
            tokens=self.max_total_tokens,
            cost_micros=self.max_cost_micros,
            seconds=self.max_seconds,
        )

    def manner(self, model: str) -> Manner:
        """Return how a model is asked."""
        return Manner(model=model, max_tokens=self.max_answer_tokens, thinking=self.thinking, window=self.window)


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return str(uuid4())


def _pause(attempt: int) -> float:
    return wait(attempt, {}, 0.5)


class World(NamedTuple):
    """What a conversation happens in."""

    model: Model
    config: Path
    cwd: Path
    environment: Mapping[str, str]
    now: Callable[[], datetime] = _now
    clock: Callable[[], float] = time.monotonic
    new_id: Callable[[], str] = _new_id
    pause: Callable[[int], float] = _pause
    """How many seconds to wait before an answer that broke off so many times is asked for again."""
