"""Formats numbers and times for people, and parses the times that people write.

The current time and the time zone are arguments: nothing here reads the clock.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from unspool.errors import UsageError

_AGES = ((604_800, "w"), (86_400, "d"), (3_600, "h"), (60, "min"))


def amount(count: int, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: `1 session`, `2,301 sessions`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size(count: int) -> str:
    """Format a number of bytes: `812 bytes`, `1.4 MB`."""
    number, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{count:,} {units[0]}" if units[0] == "bytes" else f"{number:.1f} {units[0]}"


def dollars(micros: int) -> str:
    """Format micro-dollars: two decimals, four below one cent.

    >>> dollars(1_234_567), dollars(1_234), dollars(0)
    ('$1.23', '$0.0012', '$0.00')
    """
    places, unit = (4, 100) if 0 < micros < 10_000 else (2, 10_000)
    whole, part = divmod((micros + unit // 2) // unit, 10**places)
    return f"${whole:,}.{part:0{places}}"


def tokens(count: int | None) -> str:
    """Format a number of tokens: `812`, `34k`, `1.2M`; empty if it is not known.

    >>> tokens(34_567)
    '35k'
    """
    if count is None:
        return ""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"


def duration(passed: timedelta) -> str:
    """Format a length of time: `0.4 s`, `12 s`, `3 min 20 s`, `1 h 5 min`.

    >>> duration(timedelta(seconds=200))
    '3 min 20 s'
    """
    seconds = passed.total_seconds()
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(round(whole / 60), 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def ago(moment: datetime | None, now: datetime) -> str:
    """Format how long ago a time was; as a date if that is more than four weeks, or in the future.

    >>> ago(datetime(2026, 1, 5, 6), datetime(2026, 1, 5, 9))
    '3 h ago'
    """
    if moment is None:
        return "never"
    seconds = (now - moment).total_seconds()
    if not 0 <= seconds < 28 * 86_400:
        return f"{moment:%Y-%m-%d}"
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now"


def span(started: datetime | None, last: datetime | None) -> str:
    """Format the time from start to end, with the day only once if it is the same.

    >>> span(datetime(2026, 1, 5, 9, 0), datetime(2026, 1, 5, 9, 30))
    '2026-01-05 09:00 to 09:30'
    """
    if started is None or last is None:
        return ""
    begin = f"{started:%Y-%m-%d %H:%M}"
    end = f"{last:%H:%M}" if started.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return begin if begin.endswith(end) else f"{begin} to {end}"


_AGO = re.compile(r"(\d{1,5})(h|d|w)")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}


def parse_time_expression(
    text: str | None, now: datetime, zone: tzinfo | None = None, *, end: bool = False
) -> datetime | None:
    """Parse `2026-01-05`, `2026-01-05T09:00` or `7d`; a day means its start, or with `end` its last moment.

    A time without an offset is in the zone, the machine's own by default.
    """
    if text is None:
        return None
    try:
        if match := _AGO.fullmatch(text):
            return now - timedelta(hours=int(match[1]) * _HOURS[match[2]])
        if len(text) != len("2026-01-05"):
            return _in_zone(datetime.fromisoformat(text), zone)
        day = date.fromisoformat(text)
        if not end:
            return _in_zone(datetime.combine(day, time.min), zone)
        # Not the day's last clock time: where clocks go back at midnight that comes twice.
        following = _in_zone(datetime.combine(day + timedelta(days=1), time.min), zone)
        return (following.astimezone(UTC) - timedelta.resolution).astimezone(zone)
    except (ValueError, OverflowError):
        raise UsageError(f"not a time: `{text}`", hint="a date as 2026-01-05, or `12h`, `7d`, `2w` ago") from None


def _in_zone(time: datetime, zone: tzinfo | None) -> datetime:
    if time.tzinfo is None and zone is not None:
        time = time.replace(tzinfo=zone)
    # By way of UTC: a clock time that is left out where clocks go forward becomes one that there is.
    return time.astimezone(UTC).astimezone(zone)
