"""How a conversation is asked for: which session, how it is led, and in which world. Data only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from unspool.api.retry import wait
from unspool.client.limits import Limits
from unspool.client.model import Model
from unspool.client.request import Manner


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
