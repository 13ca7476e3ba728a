"""Decides when the new lines of a device become a segment.

Rules
  1. Once the new bytes of all files are many (`size`), or the last flush is old (`age`), all of them are sent. Until
     then they are held: an object for every line would cost more than the lines themselves.
  2. What is held stays in its file and in the archive. A collector that ends or is killed has lost nothing: nobody
     remembers that it was held, so the next one sends it.
  3. Only a clock that never goes back is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class FlushSchedule:
    """Remembers when something was last sent, and whether anything is held."""

    def __init__(self, age: float = 0.0, size: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._age, self._size, self._clock = age, size, clock
        self._flushed = float("-inf")
        self._is_held = False

    def is_due(self, new_bytes: int) -> bool:
        """Return whether to send what is new; if not, it is held."""
        now = self._clock()
        self._is_held = new_bytes < self._size and now < self._flushed + self._age
        if not self._is_held:
            self._flushed = now
        return not self._is_held

    def has_due(self) -> bool:
        """Return whether something has been held for long enough."""
        return self._is_held and self._clock() >= self._flushed + self._age
