"""The store kept up to date while pages are open: when something has changed, and now and then.

Rules
  1. One refresh at a time, in a thread of its own; what changes meanwhile is taken in by the next.
  2. A refresh that fails is told, and does not end the server: pages show what is known.
"""

from __future__ import annotations

from typing import Final

import anyio
from anyio import to_thread

from unspool.errors import UnspoolError
from unspool.web.place import Place

CALM: Final = 1.0
"""Seconds between two refreshes at least: a session at work writes many lines a second."""
NOW_AND_THEN: Final = 60.0
"""Seconds after which it is looked anyway."""


class Upkeep:
    """Brings the store up to date when it is told that something has changed."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._wanted = anyio.Event()
        self.complaint: str | None = None
        """Why the last refresh failed, if it did."""

    def want(self) -> None:
        """Ask for a refresh soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            self._wanted = anyio.Event()
            await to_thread.run_sync(self._refresh)
            await anyio.sleep(CALM)
            with anyio.move_on_after(NOW_AND_THEN):
                await self._wanted.wait()

    def _refresh(self) -> None:
        try:
            self._place.refresh()
            self.complaint = None
        except UnspoolError as error:
            self.complaint = error.message
