"""Usage by 5-hour block, the windows that Claude's limits are counted in. In: responses, each by itself. Out: a report.

Rules
  1. A block begins at the hour (of UTC, whatever the zone) of its first response and lasts 5 hours. The first response
     at its end or later begins the next one; so does, by that, one more than 5 hours after the response before it.
  2. Blocks belong to the account: they are found among all responses, then filled with those that are asked for.
     A block that has one of these in the time asked for is shown whole.
  3. Where nothing was asked for more than 5 hours there is a gap, from the end of a block to the start of the next.
  4. Responses without a time come last, in a row without a start.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from typing import TYPE_CHECKING, Any, NamedTuple

from unspool.errors import Usage
from unspool.store.usage.report import PERIODS, Figures, Report, Row, added, local, together, unpriced, written, zone_of

if TYPE_CHECKING:
    from unspool.store.usage.ledger import Limit, Sum

MINUTE = 60_000
HOUR = 60 * MINUTE
LENGTH = 5 * HOUR

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SECONDS = re.compile(r"\|(\d{10})\b", re.ASCII)
_RESETS = re.compile(
    rf"""resets\s+
    (?:(?P<month>{"|".join(_MONTHS)})[a-z]*\.?\s+(?P<day>\d{{1,2}})(?:,?\s+(?P<year>\d{{4}})\b)?,?\s+)?
    (?:at\s+)?
    (?P<hour>\d{{1,2}})(?::(?P<minute>[0-5]\d))?(?:\s?(?P<half>[ap])\.?m\b)?
    (?:\.?\s*\((?P<zone>[\w/+:-]{{1,64}})\))?""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)


class Block(NamedTuple):
    """A window, in milliseconds since 1970; its end is not in it."""

    start: int
    end: int
    is_gap: bool = False


class View(NamedTuple):
    """Which blocks are wanted, and how they are seen."""

    now: int
    """Milliseconds since 1970."""
    zone: tzinfo | None = None
    since: int | None = None
    until: int | None = None
    order: str | None = None


def report(every: Sequence[Sum], chosen: Sequence[Sum], limits: Iterable[Limit], view: View) -> Report:
    """Return the blocks of all responses with the numbers of those chosen among them."""
    found = blocks(one.time for one in every)
    starts = [block.start for block in found]
    filled: dict[Block, list[Sum]] = {}
    untimed = []
    for one in chosen:
        if one.time is None:
            untimed.append(one)
        else:
            filled.setdefault(found[bisect_right(starts, one.time) - 1], []).append(one)
    shown = list(_shown(found, filled, view))
    told = [limit for limit in limits if limit.time is not None]
    rows = [_row(block, filled.get(block, []), told, view) for block in shown]
    if view.order == "desc":
        rows.reverse()
    if view.since is not None or view.until is not None:
        untimed = []
    if untimed:
        rows.append(Row(dict.fromkeys(PERIODS["blocks"].labels) | _NEITHER, added(untimed)))
    counted = [one for block in shown for one in filled.get(block, [])] + untimed
    return Report("blocks", rows, together(rows), unpriced(counted))


def blocks(times: Iterable[int | None]) -> list[Block]:
    """Return the blocks of responses at these times, with the gaps between them, the oldest first.

    >>> blocks([0, 6 * HOUR])
    [Block(start=0, end=18000000, is_gap=False), Block(start=18000000, end=21600000, is_gap=True), \
Block(start=21600000, end=39600000, is_gap=False)]
    """
    found: list[Block] = []
    last = 0
    for time in sorted(time for time in times if time is not None):
        if not found or time >= found[-1].end:
            start = time - time % HOUR
            if found and time - last > LENGTH and found[-1].end < start:
                found.append(Block(found[-1].end, start, is_gap=True))
            found.append(Block(start, start + LENGTH))
        last = time
    return found


def resets_at(notice: str, time: int, zone: tzinfo | None) -> int | None:
    """Return the moment that a notice of a limit names: the next one after `time`, when it was written.

    It is in the zone that the notice names, else in the one given: the program writes that of its machine.
    """
    if match := _SECONDS.search(notice):
        return int(match[1]) * 1000
    match = _RESETS.search(notice)
    clock = _clock(match) if match else None
    if match is None or clock is None:
        return None
    zone = _zone(match["zone"], zone)
    try:
        for day in _days(match, local(time, zone)):
            for fold in (0, 1):  # where clocks go back, an hour comes twice
                moment = int(datetime.combine(day, clock.replace(fold=fold), zone).timestamp()) * 1000
                if moment > time:
                    return moment
    except (ValueError, OverflowError):  # the calendar ends
        return None
    return None


_NEITHER = {"is_gap": False, "is_active": False}


def _shown(found: Sequence[Block], filled: dict[Block, list[Sum]], view: View) -> Iterator[Block]:
    """Yield the blocks wanted, and the gaps between them."""
    wanted = [any(_in_time(one, view) for one in filled.get(block, [])) for block in found]
    if not any(wanted):
        return
    first, last = wanted.index(True), len(wanted) - wanted[::-1].index(True)
    for block, has_some in zip(found[first:last], wanted[first:last], strict=True):
        if has_some or block.is_gap:
            yield block


def _in_time(one: Sum, view: View) -> bool:
    assert one.time is not None
    return (view.since is None or view.since <= one.time) and (view.until is None or one.time < view.until)


def _row(block: Block, sums: Sequence[Sum], limits: Sequence[Limit], view: View) -> Row:
    figures, times = added(sums), [one.time for one in sums if one.time is not None]
    is_active = not block.is_gap and block.start <= view.now < block.end
    passed = max(times) - min(times) if times else 0
    hourly = _rate(figures.cost_micros, HOUR, passed)
    labels: tuple[Any, ...] = (
        written(block.start, view.zone, "seconds"),
        written(block.end, view.zone, "seconds"),
        block.is_gap,
        is_active,
        written(max(times, default=None), view.zone),
        _rate(figures.total_tokens, MINUTE, passed),
        hourly,
        _projected(figures, hourly, block.end - view.now) if is_active else None,
        written(_reset(block, limits, view.zone), view.zone, "seconds"),
    )
    return Row(dict(zip(PERIODS["blocks"].labels, labels, strict=True)), figures)


def _rate(amount: int, unit: int, passed: int) -> int | None:
    """Return how much there was in a unit of time; nothing if less than a minute passed."""
    return (amount * unit * 2 + passed) // (passed * 2) if passed >= MINUTE else None


def _projected(figures: Figures, hourly: int | None, left: int) -> int | None:
    return None if hourly is None else figures.cost_micros + hourly * left // HOUR


def _reset(block: Block, limits: Iterable[Limit], zone: tzinfo | None) -> int | None:
    """Return what the last notice in the block tells."""
    inside = [(limit.time, limit.notice) for limit in limits if block.start <= (limit.time or 0) < block.end]
    told = [resets_at(notice, time or 0, zone) for time, notice in sorted(inside, key=lambda pair: pair[0] or 0)]
    return next((moment for moment in reversed(told) if moment is not None), None)


def _zone(name: str | None, zone: tzinfo | None) -> tzinfo | None:
    try:
        return zone_of(name) if name else zone
    except Usage:
        return zone


def _clock(match: re.Match[str]) -> clock_time | None:
    """Return the time of day of `3pm`, `3:30pm` or `15:30`; a bare number is none."""
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if match["half"]:
        afternoon = 12 if match["half"].lower() == "p" else 0
        return clock_time(hour % 12 + afternoon, minute) if 1 <= hour <= 12 else None
    return clock_time(hour, minute) if match["minute"] and hour < 24 else None


def _days(match: re.Match[str], now: datetime | None) -> Iterator[date]:
    """Yield the days a notice may mean, in order: without a date today and tomorrow."""
    if now is None:
        return
    if not match["month"]:
        yield now.date()
        yield now.date() + timedelta(days=1)
        return
    month, day = _MONTHS.index(match["month"].lower()) + 1, int(match["day"])
    for year in [int(match["year"])] if match["year"] else range(now.year, now.year + 9):
        with suppress(ValueError):  # not every year has a 29th of February
            yield date(year, month, day)
