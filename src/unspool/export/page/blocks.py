"""What a page loads at once: an index in, blocks of about equal height out.

Rules
  1. A block is made of chunks (`index.py`, rule 2) that follow each other: of one turn or of several.
  2. What is appended to a file changes the last block and adds others: no other is cut anew.
"""

from __future__ import annotations

import msgspec

from unspool.export.page.index import Index
from unspool.export.page.parts import CHUNK

_ROW, _LINE, _PER_LINE, _TITLE = 28, 22, 90, 44
"""Pixels of a row, of a line of text, characters on one, pixels of a turn's own air."""
_TURNS = 60
"""A block has no more."""


class Block(msgspec.Struct, frozen=True):
    """Turns, or parts of long ones, that are loaded together."""

    first: int
    first_chunk: int
    last: int
    last_chunk: int
    start: int = 0
    """Where it begins in the file."""
    steps: int = 0
    characters: int = 0

    @property
    def id(self) -> str:
        """What it is known by on its page: it stays the same while the file grows."""
        return f"{self.first}-{self.first_chunk}"

    def has(self, turns: range | None) -> bool:
        """Tell whether any of some turns is in it; of no turns in particular, always."""
        return turns is None or (bool(turns) and self.first <= turns[-1] and turns[0] <= self.last)

    @property
    def height(self) -> int:
        """About how many pixels it takes."""
        turns = self.last - self.first + 1
        return self.steps * _ROW + self.characters // _PER_LINE * _LINE + turns * _TITLE


def blocks(index: Index) -> list[Block]:
    """Return the blocks of a file, in order."""
    found: list[Block] = []
    units = (
        (number, place, chunk)
        for number, part in enumerate(index.parts)
        if number or index.has_opening
        for place, chunk in enumerate(part.chunks)
    )
    for number, place, chunk in units:
        before = found[-1] if found else None
        if before is None or before.steps >= CHUNK or number - before.first >= _TURNS:
            found.append(Block(number, place, number, place, chunk.start, chunk.steps, chunk.characters))
        else:
            steps, characters = before.steps + chunk.steps, before.characters + chunk.characters
            found[-1] = Block(before.first, before.first_chunk, number, place, before.start, steps, characters)
    return found
