"""Formats numbers and times for people, and parses the times that people write.

The current time and the time zone are arguments: nothing here reads the clock.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from unspool.errors import UsageError

_UUID_START = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-")
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


def cost(micros: int | None, unpriced_tokens: int = 0) -> str:
    """Format a cost: `?` if none of it is known, and `+?` after what is known of it.

    >>> cost(1_234_567), cost(1_234_567, unpriced_tokens=10), cost(None), cost(0, unpriced_tokens=10), cost(0)
    ('$1.23', '$1.23+?', '?', '?', '$0.00')
    """
    if micros is None or (unpriced_tokens and not micros):
        return "?"
    return f"{dollars(micros)}+?" if unpriced_tokens else dollars(micros)


def short_id(id: str) -> str:
    """Return the beginning of a session's id: of a UUID eight characters, of a file's name so many that it says more.

    >>> short_id("945090a1-3c1c-4b0e-9a5e-0f6c1d2e3f40"), short_id("large-conversation")
    ('945090a1', 'large-conversation')
    """
    return id[:8] if _UUID_START.match(id) else id[:24]


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


_AGO = re.compile(r"(\d{1,5})\s*(min|minutes?|h|hours?|d|days?|w|weeks?)(?:\s+ago)?", re.ASCII)
_MINUTES = {"m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_MONTH = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
TIME_HINT = (
    "use a date (`2026-01-05`, `2026-01`), a time (`2026-01-05T09:00`), `today`, `last week`, or an age (`12h`, `7d`)"
)


def parse_time_expression(
    text: str | None, now: datetime, zone: tzinfo | None = None, *, end: bool = False
) -> datetime | None:
    """Parse a time as people write it: a date, a month, a time, an age such as `7d`, or words such as `last week`.

    A day, a week, a month or a year means its start, or with `end` its last moment. A time without an offset is in the
    zone, the machine's own by default.
    """
    if text is None:
        return None
    words = " ".join(text.lower().split())
    try:
        if words == "now":
            return now
        if match := _AGO.fullmatch(words):
            return now - timedelta(minutes=int(match[1]) * _MINUTES[match[2][0]])
        period = _parse_period(words, now.astimezone(zone).date())
        if period is None:
            return _in_zone(datetime.fromisoformat(text.strip()), zone)
        first, following = period
        if not end:
            return _in_zone(datetime.combine(first, time.min), zone)
        # Not the day's last clock time: where clocks go back at midnight that comes twice.
        last = _in_zone(datetime.combine(following, time.min), zone).astimezone(UTC) - timedelta.resolution
        return last.astimezone(zone)
    except (ValueError, OverflowError):
        raise UsageError(f"invalid time `{text}`", hint=TIME_HINT) from None


def _parse_period(words: str, today: date) -> tuple[date, date] | None:
    """Return the first day of a period and the day after its last; None if the words name none."""
    day = timedelta(days=1)
    if len(words) == len("2026-01-05") and words[0].isdigit():
        only = date.fromisoformat(words)
        return only, only + day
    if match := _MONTH.fullmatch(words):
        year = int(match[1])
        return _month(year, int(match[2])) if match[2] else (date(year, 1, 1), date(year + 1, 1, 1))
    if words in _WEEKDAYS:  # the last one, or today
        only = today - ((today.weekday() - _WEEKDAYS.index(words)) % 7) * day
        return only, only + day
    monday, before = today - today.weekday() * day, today.replace(day=1) - day
    match words:
        case "today":
            return today, today + day
        case "yesterday":
            return today - day, today
        case "this week":
            return monday, monday + 7 * day
        case "last week":
            return monday - 7 * day, monday
        case "this month":
            return _month(today.year, today.month)
        case "last month":
            return _month(before.year, before.month)
        case "this year":
            return date(today.year, 1, 1), date(today.year + 1, 1, 1)
        case "last year":
            return date(today.year - 1, 1, 1), date(today.year, 1, 1)
        case _:
            return None


def _month(year: int, month: int) -> tuple[date, date]:
    return date(year, month, 1), date(year + month // 12, month % 12 + 1, 1)


def _in_zone(time: datetime, zone: tzinfo | None) -> datetime:
    if time.tzinfo is None and zone is not None:
        time = time.replace(tzinfo=zone)
    # By way of UTC: a clock time that is left out where clocks go forward becomes one that there is.
    return time.astimezone(UTC).astimezone(zone)
