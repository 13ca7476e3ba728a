"""A question with answers to pick from: keys in, what was picked out. Pure.

Rules
  1. Nothing is picked by a key that was pressed before the question could be read (`PAUSE`).
  2. What is shown is cleaned by whoever shows it.
"""

from __future__ import annotations

from typing import NamedTuple

PAUSE = 0.4
"""Seconds during which keys are meant for what was there before."""
ROWS = 9
"""Answers that are shown at a time."""


class Option(NamedTuple):
    """An answer."""

    label: str
    detail: str = ""
    key: str = ""
    """A letter that picks it at once."""
    wants: str = ""
    """What to ask for in words, if it wants any: `what should it do instead?`"""


class Picked(NamedTuple):
    """What was picked: places, and words."""

    places: tuple[int, ...]
    words: str = ""

    @property
    def place(self) -> int:
        """The one that was picked."""
        return self.places[0]


class Picking:
    """A question while it is open."""

    def __init__(self, title: str, options: list[Option], *, several: bool = False, at: int = 0) -> None:
        self.title = title
        self.options = options
        self.several = several
        self.cursor = min(at, max(len(options) - 1, 0))
        self.marked: set[int] = set()
        self.wanted: Option | None = None
        """The answer that waits for words."""

    def press(self, key: str) -> Picked | None:
        """Take a key; return what was picked, if that is what it did."""
        match key:
            case "up" | "down":
                self.cursor = (self.cursor + (1 if key == "down" else -1)) % max(len(self.options), 1)
            case "space" if self.several:
                self.marked ^= {self.cursor}
            case "enter" if self.options:
                return self._pick(self.cursor)
            case _:
                return self._letter(key)
        return None

    def said(self, words: str) -> Picked:
        """Take the words that were wanted."""
        return Picked(self._places(self.cursor), words.strip())

    def window(self) -> range:
        """Return which answers are shown: some around the one that is looked at."""
        first = max(0, min(self.cursor - ROWS // 2, len(self.options) - ROWS))
        return range(first, min(first + ROWS, len(self.options)))

    def _letter(self, key: str) -> Picked | None:
        for place, option in enumerate(self.options):
            if key == option.key or (key == str(place + 1) and not self.several):
                self.cursor = place
                return self._pick(place)
        return None

    def _pick(self, place: int) -> Picked | None:
        if self.options[place].wants:
            self.wanted = self.options[place]
            return None
        return Picked(self._places(place))

    def _places(self, place: int) -> tuple[int, ...]:
        return tuple(sorted(self.marked)) if self.several and self.marked else (place,)
