"""Computes what the time of a turn went into, and lays out the turns of a session along a strip.

Rules
  1. Times are those of the lines. Where lines are out of order a span ends no earlier than it begins.
  2. Each moment counts once. Where several things happen at once it counts as waiting for a person, then as agent, then
     as tool, then as model. What is left is called other: hooks, retries, nothing that the file tells of.
  3. In the strip a pause takes little room, however long it is; its length is in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

KINDS_OF_TIME: Final = ("person", "agent", "tool", "model", "other")
"""What time goes into, in the order in which it counts (rule 2)."""
_MIN_PAUSE: Final = 60_000
"""Milliseconds between two turns that are drawn to scale."""
_PAUSE_SHARE: Final = 50
"""A pause takes at most the fiftieth part of the time that was worked."""


class TimeSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Something that took time, in milliseconds since 1970."""

    kind: str
    """`model`, `tool`, `agent` or `person`."""
    name: str
    key: str
    """The step."""
    start: int
    end: int
    target: str = ""
    words: str = ""
    """How it ended."""
    is_open: bool = False
    """No result is known: it ends where the turn does."""
    agent: str | None = None

    @property
    def length(self) -> int:
        """Milliseconds."""
        return self.end - self.start


def sum_times(spans: Iterable[TimeSpan], start: int, end: int) -> dict[str, int]:
    """Return how many milliseconds between two times went into what; they add up to all of them."""
    edges: list[tuple[int, int, str]] = []
    for span in spans:
        begin, stop = max(span.start, start), min(span.end, end)
        if begin < stop:
            edges += [(begin, 1, span.kind), (stop, -1, span.kind)]
    running = dict.fromkeys(KINDS_OF_TIME, 0)
    sums = dict.fromkeys(KINDS_OF_TIME, 0)
    at = start
    for moment, step, kind in sorted(edges):
        sums[next((name for name in KINDS_OF_TIME if running[name]), "other")] += moment - at
        running[kind] += step
        at = moment
    sums["other"] += max(0, end - at)
    return sums


class StripTurn(NamedTuple):
    """When a turn began and when its last line was written, in milliseconds since 1970."""

    number: int
    start: int
    end: int


class StripPart(msgspec.Struct, frozen=True):
    """A part of the strip: turns that were worked, or the time before them in which a prompt was waited for."""

    kind: str
    """`turn` or `wait`."""
    first: int
    last: int
    """The numbers of its first and its last turn."""
    left: float
    width: float
    """Both in parts of a thousand."""
    milliseconds: int
    is_cut: bool = False
    """It is drawn shorter than it was."""


def build_strip(turns: Sequence[StripTurn], most: int = 300) -> list[StripPart]:
    """Return the strip of a session; of more turns than fit several are drawn as one."""
    step = max(1, -(-len(turns) // most))
    groups = [turns[at : at + step] for at in range(0, len(turns), step)]
    worked = sum(turn.end - turn.start for turn in turns)
    longest_pause = max(_MIN_PAUSE, worked // _PAUSE_SHARE)
    parts: list[tuple[str, int, int, int, int]] = []
    reached: int | None = None
    for group in groups:
        start, end = group[0].start, max(turn.end for turn in group)
        if reached is not None and start > reached:
            pause = start - reached
            parts.append(("wait", group[0].number, group[0].number, pause, min(pause, longest_pause)))
        length = sum(turn.end - turn.start for turn in group)
        parts.append(("turn", group[0].number, group[-1].number, length, length))
        reached = max(reached or end, end)
    whole = sum(drawn for *_, drawn in parts) or 1
    strip, left = list[StripPart](), 0.0
    for kind, first, last, length, drawn in parts:
        width = drawn * 1000 / whole
        strip.append(StripPart(kind, first, last, round(left, 2), round(width, 2), length, drawn < length))
        left += width
    return strip
