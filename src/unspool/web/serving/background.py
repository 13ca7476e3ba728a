"""Background tasks of the server: one follows the folder for the live board, one keeps the store up to date.

Rules
  1. One task follows the folder, however many pages are open. If it cannot, the page says so, and nothing else ends.
  2. One refresh of the store runs at a time, in a thread; what changes meanwhile is taken in by the next. A refresh
     that fails is shown, and does not end the server: pages show what is known.
  3. No change is sent to anyone: a stream is woken, and looks for what has changed since the number it saw last. A
     stream that was away misses nothing, and a slow one holds up nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import anyio
from anyio import to_thread

from unspool.errors import UnspoolError
from unspool.live import Board, follow, hook_signals
from unspool.live.state import BoardGroup
from unspool.read import Skipped
from unspool.web.serving.site import Site

MIN_REFRESH_SECONDS: Final = 1.0
"""Between two refreshes: a session at work writes many lines a second."""
MAX_REFRESH_SECONDS: Final = 60.0
"""After which the store is refreshed even if no change was noticed."""


class ChangeNotifier:
    """Wakes streams when files have changed: a number that grows, and for each file the number it changed at."""

    def __init__(self) -> None:
        self.number = 0
        self._changed: dict[str, int] = {}
        self._event = anyio.Event()

    def notify(self, paths: Iterable[str] = ()) -> None:
        """Wake everyone who waits; these files have changed."""
        self.number += 1
        for path in paths:
            self._changed[path] = self.number
        self._event.set()
        self._event = anyio.Event()

    def has_changed(self, path: str, since: int) -> bool:
        """Tell whether a file has changed after a number was seen."""
        return self._changed.get(path, 0) > since

    async def wait(self, since: int, timeout: float) -> None:
        """Wait until something has changed after a number was seen, or until the timeout."""
        if self.number <= since:
            with anyio.move_on_after(timeout):
                await self._event.wait()


class StoreRefresher:
    """Brings the store up to date when it is requested, and at intervals."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._requested = anyio.Event()
        self.error: str | None = None
        """Why the last refresh failed, if it did."""
        self.skipped: Sequence[Skipped] = ()
        """The files and folders that the last refresh could not read."""

    def request(self) -> None:
        """Let a refresh run soon."""
        self._requested.set()

    async def run(self) -> None:
        """Refresh until cancelled."""
        while True:
            # Before the refresh: what is requested while it runs is for the next one.
            self._requested = anyio.Event()
            await to_thread.run_sync(self._refresh)
            await anyio.sleep(MIN_REFRESH_SECONDS)
            with anyio.move_on_after(MAX_REFRESH_SECONDS):
                await self._requested.wait()

    def _refresh(self) -> None:
        try:
            self.skipped = self._site.refresh()
            self.error = None
        except UnspoolError as error:
            self.error = error.message


class BoardWatcher:
    """Follows the folder and keeps the live board up to date."""

    def __init__(self, site: Site, refresher: StoreRefresher) -> None:
        self.board = Board(site.roots, site.folder / hook_signals.SIGNALS_FOLDER, clock=site.clock)
        self.changes = ChangeNotifier()
        self.mode = ""
        """How the folder is followed, in words."""
        self._refresher = refresher
        self._stop = anyio.Event()
        self._needing = (-1, 0)
        """The number of the last change for which `count_needing` counted, and the count."""

    def count_needing(self, now: datetime) -> int:
        """Return how many sessions need the user."""
        number = self.changes.number
        # Counted once for each change: every page shows it, and thousands of sessions may have changed within a day.
        if self._needing[0] != number:
            self._needing = (number, sum(row.group is BoardGroup.NEEDS_YOU for row in self.board.rows(now)))
        return self._needing[1]

    async def run(self) -> None:
        """Follow the folder until cancelled."""
        await to_thread.run_sync(self.board.refresh)
        self.changes.notify()
        async for events in follow(self.board, stop=self._stop):
            for event in events:
                if event.event == "mode":
                    self.mode = event.text
            paths = {event.path for event in events if event.path}
            self.changes.notify(paths)
            if paths:
                self._refresher.request()
