"""Time and ids for built sessions: counted, never looked up."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from uuid import UUID


class Clock:
    """A clock that moves on by a step each time it is asked."""

    def __init__(self, start: str, step: float) -> None:
        self._time = datetime.fromisoformat(start).astimezone(UTC)
        self._step = timedelta(seconds=step)

    @property
    def now(self) -> str:
        """The time as Claude Code writes it."""
        return self._time.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def tick(self) -> str:
        """Return the time and move on."""
        now = self.now
        self._time += self._step
        return now

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._time += timedelta(seconds=seconds)


class Ids:
    """Ids that look like the real ones and are the same each time."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def uuid(self) -> str:
        """A line's id."""
        return str(UUID(bytes=self._next()[:16], version=4))

    def message(self) -> str:
        """An API message's id."""
        return f"msg_01{self._next().hex()[:22]}"

    def request(self) -> str:
        """An API request's id."""
        return f"req_01{self._next().hex()[:22]}"

    def tool(self) -> str:
        """A tool call's id."""
        return f"toolu_01{self._next().hex()[:22]}"

    def _next(self) -> bytes:
        self._count += 1
        return hashlib.sha256(f"{self._seed}:{self._count}".encode()).digest()
