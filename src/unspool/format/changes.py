"""How much a tool changed a file: its structured result in, lines added and removed out.

Rules
  1. What counts is the patch: each of its lines begins with a space, `+`, `-` or `\\`.
  2. The result of creating a file has no patch: all its lines were added.
"""

from collections.abc import Callable

import msgspec

from unspool.format.shape import Buffer, CamelShape


class _Hunk(CamelShape, frozen=True):
    lines: tuple[str, ...] = ()


class Outcome(CamelShape, frozen=True):
    """As much of the result of a tool that changes files as tells how much it changed."""

    type: str | None = None
    content: str | None = None
    structured_patch: tuple[_Hunk, ...] = ()

    def lines(self) -> tuple[int, int] | None:
        """Return how many lines were added and removed; nothing if the result does not tell."""
        lines = [line for hunk in self.structured_patch for line in hunk.lines]
        if not lines and self.type == "create" and self.content is not None:
            return len(self.content.splitlines()), 0
        if not lines:
            return None
        return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


outcome: Callable[[Buffer | str], Outcome] = msgspec.json.Decoder(Outcome).decode
