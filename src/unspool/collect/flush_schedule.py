"""Decides when the new lines of a file become a segment.

Rules
  1. A file whose new bytes are many (`size`), or whose last segment is old (`age`), is sent now. Others are held: an
     object for every line would cost more than the lines themselves.
  2. What is held stays in its file and in the archive. A collector that ends or is killed has lost nothing: nobody
     remembers that it was held, so the next one sends it.
  3. Only a clock that never goes back is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class FlushSchedule:
    """Remembers when each stream was last sent, and which are held."""

    def __init__(self, age: float = 0.0, size: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._age, self._size, self._clock = age, size, clock
        self._sent: dict[str, float] = {}
        self._held: dict[str, float] = {}
        """By stream: when it is sent at the latest."""

    def is_due(self, stream: str, new_bytes: int) -> bool:
        """Return whether to send what is new in a stream; if not, it is held."""
        now = self._clock()
        due_at = self._sent.get(stream, float("-inf")) + self._age
        if new_bytes < self._size and now < due_at:
            self._held[stream] = due_at
            return False
        self._held.pop(stream, None)
        if self._age:
            self._sent[stream] = now
        return True

    def has_due(self) -> bool:
        """Return whether a stream has been held for long enough."""
        now = self._clock()
        # Of streams that were not sent for that long nothing need be known: they are due in any case.
        self._sent = {stream: sent for stream, sent in self._sent.items() if now - sent < self._age}
        return any(due_at <= now for due_at in self._held.values())
