"""A terminal that can do nothing but print, or none at all: lines in, lines out. Nothing is drawn again.

Rules
  1. A question is answered with a line: a letter, a number, or the words it wants after them. An empty line is no.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from unspool.client.ui.choice import Picked, Picking
from unspool.client.ui.input_lines import lines_of
from unspool.client.ui.screen import Host
from unspool.display.safe import clean, clean_line


class Plain:
    """Standard input and output while a conversation lasts; a `Screen` that is one line after the other."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.tail: Callable[[], str] = str
        self.queued: list[str] = []
        self._left = asyncio.Event()
        self._asked: asyncio.Future[str] | None = None
        self._one_by_one = asyncio.Lock()

    @property
    def width(self) -> int:
        """How many columns there are."""
        import shutil

        return shutil.get_terminal_size((80, 24)).columns

    async def run(self) -> None:
        """Read lines until there are no more, or somebody leaves."""
        reading = asyncio.ensure_future(self._read())
        try:
            await self._left.wait()
        finally:
            reading.cancel()

    async def _read(self) -> None:
        async for data in lines_of(sys.stdin.fileno()):
            line = data.decode(errors="replace")
            if self._asked is not None and not self._asked.done():
                self._asked.set_result(line.strip())
            elif line.strip():
                self._host.entered(line)
        self.leave()

    def leave(self) -> None:
        """End it."""
        self._left.set()

    def show(self, text: str) -> None:
        """Print."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def fill(self, text: str) -> None:
        """Say what was there to be changed: here nothing can be typed for anybody."""
        self.show(f"it was: {clean_line(text)}\n")

    async def pick(self, picking: Picking) -> Picked | None:
        """Ask; return what was picked, None if nothing was."""
        async with self._one_by_one:
            self.show(f"\n{clean(picking.title)}\n")
            for place, option in enumerate(picking.options):
                key = f" ({option.key})" if option.key else ""
                self.show(
                    f"  {place + 1}. {clean_line(option.label)}{key}  {clean_line(option.detail)}".rstrip() + "\n"
                )
            self._asked = asyncio.get_running_loop().create_future()
            try:
                key, _, words = (await self._asked).partition(" ")
            finally:
                self._asked = None
            picked = picking.press(key)
            return picking.said(words) if picking.wanted else picked
