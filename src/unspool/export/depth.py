"""Names the levels of detail at which a terminal, a page or a file shows a session."""

from __future__ import annotations

from enum import IntEnum


class Depth(IntEnum):
    """A level of detail: each shows what those before it show, and more."""

    PROMPTS = 0
    ANSWERS = 1
    STEPS = 2
    ALL = 3

    @property
    def word(self) -> str:
        """The name, as `--depth` takes it."""
        return self.name.lower()


DEPTH_NAMES = tuple(depth.word for depth in Depth)


def parse_depth(word: str | None, default: Depth = Depth.STEPS) -> Depth:
    """Return the level with this name; the default for what is none.

    >>> parse_depth("all").name, parse_depth("deeper").name
    ('ALL', 'STEPS')
    """
    return Depth[word.upper()] if word in DEPTH_NAMES else default
