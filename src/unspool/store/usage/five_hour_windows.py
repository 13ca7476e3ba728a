"""Builds the usage report by 5-hour window, in which Claude's limits are counted (`unspool usage blocks`).

Rules
  1. What a window is, `prices/windows.py` says.
  2. Windows belong to the account: they are found among all responses, then filled with those that are asked for.
     A window that has one of these in the time asked for is shown whole.
  3. Responses without a time come last, in a row without a start.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from typing import TYPE_CHECKING, Any

from unspool.errors import UsageError
from unspool.format import format_time, local_time, milliseconds_of, parse_zone
from unspool.prices import HOUR, MINUTE, UsageWindow, WindowLimit, choose_limit, find_windows, rate_per
from unspool.store.usage.report import (
    PERIODS,
    UsageReport,
    UsageRow,
    split_by_model,
    total_of_rows,
    total_of_sums,
    unpriced_models,
)

if TYPE_CHECKING:
    from unspool.store.usage.ledger import LimitNotice, UsageSum
    from unspool.store.usage.report import UsageRequest

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


def build_window_report(
    every: Sequence[UsageSum],
    chosen: Sequence[UsageSum],
    limits: Iterable[LimitNotice],
    request: UsageRequest,
) -> UsageReport:
    """Return the windows of all responses with the figures of those chosen among them."""
    since, until, now = request.since, request.until, milliseconds_of(request.now)
    windows = find_windows(usage.time for usage in every)
    starts = [window.start for window in windows]
    filled: dict[UsageWindow, list[UsageSum]] = {}
    untimed = []
    for usage in chosen:
        if usage.time is None:
            untimed.append(usage)
        else:
            filled.setdefault(windows[bisect_right(starts, usage.time) - 1], []).append(usage)
    shown = _between(windows, {window for window, sums in filled.items() if _has_any(sums, since, until)})
    timed_limits = [limit for limit in limits if limit.time is not None]
    active = next((window for window in windows if not window.is_gap and window.start <= now < window.end), None)
    limit = _find_limit(every, windows, active, request.limits) if active else None
    rows = [
        _row(window, filled.get(window, []), timed_limits, request, limit if window == active else None)
        for window in shown
    ]
    if request.order == "desc":
        rows.reverse()
    if since is not None or until is not None:
        untimed = []
    if untimed:
        rows.append(UsageRow(dict.fromkeys(PERIODS["blocks"].labels) | _NEITHER, total_of_sums(untimed)))
    counted = [usage for window in shown for usage in filled.get(window, [])] + untimed
    return UsageReport("blocks", rows, total_of_rows(rows), unpriced_models(counted))


def parse_reset_time(notice: str, time: int, zone: tzinfo | None) -> int | None:
    """Return the moment that a notice of a limit names: the next one after `time`, when it was written.

    It is in the zone that the notice names, else in `zone`: Claude Code writes that of its machine.
    """
    if match := _SECONDS.search(notice):
        return int(match[1]) * 1000
    match = _RESETS.search(notice)
    clock = _clock(match) if match else None
    if match is None or clock is None:
        return None
    zone = _zone(match["zone"], zone)
    try:
        for day in _days(match, local_time(time, zone)):
            for fold in (0, 1):  # where clocks go back, an hour comes twice
                moment = int(datetime.combine(day, clock.replace(fold=fold), zone).timestamp()) * 1000
                if moment > time:
                    return moment
    except (ValueError, OverflowError):  # the calendar ends
        return None
    return None


_NEITHER = {"is_gap": False, "is_active": False}


def _between(windows: Sequence[UsageWindow], wanted: Container[UsageWindow]) -> list[UsageWindow]:
    """Return the windows wanted, and the gaps between them."""
    places = [place for place, window in enumerate(windows) if window in wanted]
    if not places:
        return []
    return [window for window in windows[places[0] : places[-1] + 1] if window.is_gap or window in wanted]


def _has_any(sums: Sequence[UsageSum], since: int | None, until: int | None) -> bool:
    times = (usage.time for usage in sums if usage.time is not None)
    return any((since is None or since <= time) and (until is None or time < until) for time in times)


def _find_limit(
    every: Sequence[UsageSum],
    windows: Sequence[UsageWindow],
    active: UsageWindow,
    limits: tuple[int | None, int | None],
) -> WindowLimit | None:
    """Return the limit of the active window, of all responses: the one that is set, else the largest window before."""
    used: dict[UsageWindow, tuple[int, int]] = {}
    starts = [window.start for window in windows]
    for usage in every:
        if usage.time is not None:
            window = windows[bisect_right(starts, usage.time) - 1]
            cost, tokens = used.get(window, (0, 0))
            used[window] = cost + usage.bill.cost_micros, tokens + total_of_sums((usage,)).total_tokens
    earlier = [amounts for window, amounts in used.items() if window.start < active.start]
    largest = (max((cost for cost, _ in earlier), default=None), max((tokens for _, tokens in earlier), default=None))
    return choose_limit(used.get(active, (0, 0)), limits, largest)


def _row(
    window: UsageWindow,
    sums: Sequence[UsageSum],
    limits: Sequence[LimitNotice],
    request: UsageRequest,
    limit: WindowLimit | None,
) -> UsageRow:
    now, zone = milliseconds_of(request.now), request.zone
    figures, times = total_of_sums(sums), [usage.time for usage in sums if usage.time is not None]
    is_active = not window.is_gap and window.start <= now < window.end
    passed = max(times) - min(times) if times else 0
    hourly = rate_per(HOUR, figures.cost_micros, passed)
    projected = None
    if is_active and hourly is not None:
        projected = figures.cost_micros + hourly * (window.end - now) // HOUR
    labels: tuple[Any, ...] = (
        format_time(window.start, zone, "seconds"),
        format_time(window.end, zone, "seconds"),
        window.is_gap,
        is_active,
        format_time(max(times, default=None), zone),
        rate_per(MINUTE, figures.total_tokens, passed),
        hourly,
        projected,
        format_time(_last_reset(window, limits, zone), zone, "seconds"),
        *((limit.unit, limit.amount, limit.is_learned, limit.used_percent) if limit else (None,) * 4),
    )
    by_model = split_by_model(sums) if request.breakdown else ()
    return UsageRow(dict(zip(PERIODS["blocks"].labels, labels, strict=True)), figures, by_model)


def _last_reset(window: UsageWindow, limits: Iterable[LimitNotice], zone: tzinfo | None) -> int | None:
    """Return the reset that the last notice in a window names."""
    inside = [(limit.time or 0, limit.notice) for limit in limits if window.start <= (limit.time or 0) < window.end]
    resets = [parse_reset_time(notice, time, zone) for time, notice in sorted(inside, key=lambda pair: pair[0])]
    return next((reset for reset in reversed(resets) if reset is not None), None)


def _zone(name: str | None, zone: tzinfo | None) -> tzinfo | None:
    try:
        return parse_zone(name) if name else zone
    except UsageError:
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
