"""The board while pages are open: it follows the folder, rings when something has changed, and has the store refreshed.

Rules
  1. One task follows, however many pages there are.
  2. That it cannot follow is shown on the page, and ends nothing else.
"""

from __future__ import annotations

from datetime import datetime

import anyio
from anyio import to_thread

from unspool.live import signals
from unspool.live.board import Board, Group
from unspool.live.watch import follow
from unspool.web.bell import Bell
from unspool.web.place import Place
from unspool.web.upkeep import Upkeep


class Watching:
    """Follows the folder."""

    def __init__(self, place: Place, upkeep: Upkeep) -> None:
        self.board = Board(place.root, place.folder / signals.FOLDER, clock=place.clock)
        self.bell = Bell()
        self.mode = ""
        """How the folder is followed, in words."""
        self._upkeep = upkeep
        self._stop = anyio.Event()
        self._needing = (-1, 0)
        """How many sessions needed somebody when the bell had last rung."""

    def needing(self, now: datetime) -> int:
        """Return how many sessions need somebody."""
        number = self.bell.number
        if self._needing[0] != number:  # every page asks, and thousands may have changed within a day
            self._needing = (number, sum(row.group is Group.NEEDS_YOU for row in self.board.rows(now)))
        return self._needing[1]

    async def run(self) -> None:
        """Go on until cancelled."""
        await to_thread.run_sync(self.board.refresh)
        self.bell.ring()
        async for events in follow(self.board, stop=self._stop):
            for event in events:
                if event.event == "mode":
                    self.mode = event.text
            paths = {event.path for event in events if event.path}
            self.bell.ring(paths)
            if paths:
                self._upkeep.want()
