"""Room in the window: what a loop asks before prompts and requests, and when the API says that one was too long."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from unspool.client.events import AnyEvent
from unspool.client.inbox import Inbox
from unspool.client.model import Model
from unspool.client.transcript import Transcript
from unspool.errors import ApiFailed

Json: TypeAlias = dict[str, Any]
_NOTHING: tuple[AnyEvent, ...] = ()


class Walls(NamedTuple):
    """What a conversation's room lies between."""

    transcript: Transcript
    inbox: Inbox
    model: Model
    request: Callable[[], tuple[Json, tuple[str, ...]]]
    """The next request as it would be without any limit, and its betas."""
    spent: Callable[[str | None, Json], object]
    """Told of what summaries use: a model, its usage."""
    written: Callable[[], None]
    """Called when the conversation begins anew on disk: what lists of sessions look for is to be said again."""


class Room(Protocol):
    """Who makes room."""

    @property
    def state(self) -> tuple[int, int]:
        """How many tokens the window holds now, and how many it can."""

    def change(self, model: str) -> None:
        """Go on with another model."""

    def summarize(self, hint: str = "") -> AsyncGenerator[AnyEvent, None]:
        """Go on from a summary, because a person wants it."""

    @property
    def tokens(self) -> int:
        """About how many tokens the next request is."""

    def before_prompt(self, content: str | list[Json]) -> AsyncGenerator[AnyEvent, None]:
        """Make room before a prompt is written, so that it comes whole after what the rest became."""

    def before_request(self) -> AsyncGenerator[AnyEvent, None]:
        """Make room if there is too little; tell what was done."""

    def allowed(self, body: Json) -> Json:
        """Return a request with as long an answer as there is room for."""

    def refused(self, failed: ApiFailed) -> bool:
        """Learn from a refusal; tell whether a shorter request may be taken."""

    def heard(self, usage: Json, stop_reason: str | None) -> None:
        """Take note of what an answer used, and why it ended."""


class Ample:
    """Room without end: for a conversation that is shorter than any window."""

    tokens = 0
    state = (0, 0)

    def change(self, model: str) -> None:
        """Change nothing."""

    async def summarize(self, hint: str = "") -> AsyncGenerator[AnyEvent, None]:
        """Make no summary."""
        for event in _NOTHING:
            yield event

    async def before_prompt(self, content: str | list[Json]) -> AsyncGenerator[AnyEvent, None]:
        """Make no room."""
        for event in _NOTHING:
            yield event

    async def before_request(self) -> AsyncGenerator[AnyEvent, None]:
        """Make no room."""
        for event in _NOTHING:
            yield event

    def allowed(self, body: Json) -> Json:
        """Allow everything."""
        return body

    def refused(self, failed: ApiFailed) -> bool:
        """Learn nothing."""
        return False

    def heard(self, usage: Json, stop_reason: str | None) -> None:
        """Take the number of tokens as it comes."""
        self.tokens = sum(value for key, value in usage.items() if key.endswith("tokens") and isinstance(value, int))
