"""How much of a session is told, in a terminal, a page or a file."""

from __future__ import annotations

from enum import IntEnum


class Depth(IntEnum):
    """How much is told: each tells what those before it tell, and more."""

    PROMPTS = 0
    ANSWERS = 1
    STEPS = 2
    ALL = 3

    @property
    def word(self) -> str:
        """Its name as people write it."""
        return self.name.lower()


WORDS = tuple(depth.word for depth in Depth)


def depth_of(word: str | None, default: Depth = Depth.STEPS) -> Depth:
    """Return the depth a person means; the default for what is none.

    >>> depth_of("all").name, depth_of("deeper").name
    ('ALL', 'STEPS')
    """
    return Depth[word.upper()] if word in WORDS else default
