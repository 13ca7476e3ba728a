"""Finds the 5-hour windows in which Claude's limits are counted, among the times of responses.

Rules
  1. A window begins at the hour (of UTC, whatever the zone) of its first response and lasts 5 hours. The first response
     at its end or later begins the next one; so does, by that, one more than 5 hours after the response before it.
  2. Where there was no response for more than 5 hours there is a gap, from the end of a window to the next start.
  3. `find_active_window` gives what `find_windows` gives for one moment, and looks at a few times only: the status line
     asks for it again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

MINUTE = 60_000
HOUR = 60 * MINUTE
FIVE_HOURS = 5 * HOUR


class UsageWindow(NamedTuple):
    """Five hours of use, or a gap, in milliseconds since 1970; its end is not in it."""

    start: int
    end: int
    is_gap: bool = False


def find_windows(times: Iterable[int | None]) -> list[UsageWindow]:
    """Return the windows of responses at these times, with the gaps between them, the oldest first.

    >>> find_windows([0, 6 * HOUR])
    [UsageWindow(start=0, end=18000000, is_gap=False), UsageWindow(start=18000000, end=21600000, is_gap=True), \
UsageWindow(start=21600000, end=39600000, is_gap=False)]
    """
    windows: list[UsageWindow] = []
    last = 0
    for time in sorted(time for time in times if time is not None):
        if not windows or time >= windows[-1].end:
            window = window_of(time)
            if windows and time - last > FIVE_HOURS and windows[-1].end < window.start:
                windows.append(UsageWindow(windows[-1].end, window.start, is_gap=True))
            windows.append(window)
        last = time
    return windows


def find_active_window(now: int, earliest_between: Callable[[int, int], int | None]) -> UsageWindow | None:
    """Return the window that a moment is in; None if it is in no window.

    `earliest_between` returns the time of the earliest response from one time on and before another.
    """
    # A response of the hour that is not over yet may be in the future, by another machine's clock: its window counts.
    first = earliest_between(now - FIVE_HOURS + 1, now - now % HOUR + HOUR)
    if first is None:
        return None
    # Back to a response with none in the 5 hours before it: whatever was before, it began a window.
    while (before := earliest_between(first - FIVE_HOURS + 1, first)) is not None:
        first = before
    while True:
        window = window_of(first)
        if now < window.end:
            return window if window.start <= now else None
        following = earliest_between(window.end, now - now % HOUR + HOUR)
        if following is None:
            return None
        first = following


def rate_per(unit: int, amount: int, passed: int) -> int | None:
    """Return the amount in a unit of time, rounded; None if less than a minute passed."""
    return (amount * unit * 2 + passed) // (passed * 2) if passed >= MINUTE else None


def window_of(first: int) -> UsageWindow:
    """Return the window that begins with a response."""
    start = first - first % HOUR
    return UsageWindow(start, start + FIVE_HOURS)


class WindowLimit(NamedTuple):
    """What a 5-hour window may use: set by the user, or the most that an earlier window used."""

    unit: str
    """`cost` (micro-dollars) or `tokens`."""
    amount: int
    is_learned: bool
    used_percent: int
    """How much of it is used, rounded down; may be more than 100."""


def choose_limit(
    used: tuple[int, int], limits: tuple[int | None, int | None], largest: tuple[int | None, int | None]
) -> WindowLimit | None:
    """Return the limit that a window is compared with, each given as micro-dollars and tokens; None if none is known.

    Of two limits that are set the one of which more is used; without any, what the largest earlier window cost.
    """
    named = [*zip(("cost", "tokens"), used, limits, strict=True)]
    found = [WindowLimit(unit, limit, False, used * 100 // limit) for unit, used, limit in named if limit]
    if found:
        return max(found, key=lambda one: one.used_percent)
    learned = [*zip(("cost", "tokens"), used, largest, strict=True)]
    return next((WindowLimit(unit, most, True, used * 100 // most) for unit, used, most in learned if most), None)
