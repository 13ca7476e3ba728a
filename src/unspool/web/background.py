"""The board while pages are open: it follows the folder, rings when something has changed, and has the store refreshed.

Rules
  1. One task follows, however many pages there are.
  2. That it cannot follow is shown on the page, and ends nothing else.

[merged: bell.py] Who waits for news, and what rings: a number that grows, and for each file the number it changed at.

Rules
  1. Nobody is sent anything: whoever waits is woken, and looks for what changed since the number they saw last. One who
     was away misses nothing, and one who is slow holds nobody up.

[merged: upkeep.py] The store kept up to date while pages are open: when something has changed, and now and then.

Rules
  1. One refresh at a time, in a thread of its own; what changes meanwhile is taken in by the next.
  2. A refresh that fails is told, and does not end the server: pages show what is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import anyio
from anyio import to_thread

from unspool.errors import UnspoolError
from unspool.live import hook_signals as signals
from unspool.live.board import Board, Group
from unspool.live.watch import follow
from unspool.web.site import Place


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
