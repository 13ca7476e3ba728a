"""Room in the window: what a loop asks before a request, and when the API says that one was too long."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol, TypeAlias

from unspool.client.events import AnyEvent

Json: TypeAlias = dict[str, Any]
_NOTHING: tuple[AnyEvent, ...] = ()


class Room(Protocol):
    """Who makes room."""

    @property
    def tokens(self) -> int:
        """About how many tokens the next request is."""

    def before_request(self) -> AsyncGenerator[AnyEvent, None]:
        """Make room if there is too little; tell what was done."""

    def overflowed(self) -> AsyncGenerator[AnyEvent, None]:
        """Make room because a request was too long, whatever was thought of it; tell nothing if nothing can be done."""

    def heard(self, usage: Json) -> None:
        """Take note of what an answer used."""


class Ample:
    """Room without end: for a conversation that is shorter than any window."""

    tokens = 0

    async def before_request(self) -> AsyncGenerator[AnyEvent, None]:
        """Make no room."""
        for event in _NOTHING:
            yield event

    async def overflowed(self) -> AsyncGenerator[AnyEvent, None]:
        """Make no room."""
        for event in _NOTHING:
            yield event

    def heard(self, usage: Json) -> None:
        """Take the number of tokens as it comes."""
        self.tokens = sum(value for key, value in usage.items() if key.endswith("tokens") and isinstance(value, int))
