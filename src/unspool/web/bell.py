"""Who waits for news, and what rings: a number that grows, and for each file the number it changed at.

Rules
  1. Nobody is sent anything: whoever waits is woken, and looks for what changed since the number they saw last. One who
     was away misses nothing, and one who is slow holds nobody up.
"""

from __future__ import annotations

from collections.abc import Iterable

import anyio


class Bell:
    """Rung when files have changed."""

    def __init__(self) -> None:
        self.number = 0
        self._changed: dict[str, int] = {}
        self._rung = anyio.Event()

    def ring(self, paths: Iterable[str] = ()) -> None:
        """Wake everybody; these files have changed."""
        self.number += 1
        for path in paths:
            self._changed[path] = self.number
        self._rung.set()
        self._rung = anyio.Event()

    def has_changed(self, path: str, since: int) -> bool:
        """Tell whether a file has changed after a number was seen."""
        return self._changed.get(path, 0) > since

    async def wait(self, since: int, patience: float) -> int:
        """Wait until something has changed after a number was seen, or for a while; return the number now."""
        if self.number <= since:
            with anyio.move_on_after(patience):
                await self._rung.wait()
        return self.number
