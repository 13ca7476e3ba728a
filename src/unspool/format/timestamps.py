"""Parses and formats times: the timestamps of lines, milliseconds since 1970, and the days of a time zone.

Rules
  1. A time without an offset is UTC. What is no time is None and never raises.
  2. A time in the store is whole milliseconds since 1970 (UTC). A zone of None is the machine's own.
  3. Neither `msgspec` nor anything else heavy is imported at the top: every command that reads the store loads this.
"""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise

from unspool.errors import UsageError

DAY = 24 * 60 * 60 * 1000
"""Milliseconds."""
QUARTER = 15 * 60 * 1000
"""Milliseconds. Every time zone begins its days and hours at a quarter of an hour."""
DAYS_FROM, DAYS_TO = 2020, 2040
"""The years whose days are known in advance; there was no Claude Code before."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND, _STEP = timedelta(milliseconds=1), timedelta(milliseconds=QUARTER)
_UTC_TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)


def parse_timestamp(timestamp: str | None) -> datetime | None:
    """Parse an ISO timestamp, None for what is not one. Without an offset it is taken as UTC.

    The first and the last year of the calendar count as no time: in another zone they may be out of it.

    >>> str(parse_timestamp("2026-01-05T09:00:00"))
    '2026-01-05 09:00:00+00:00'
    """
    try:
        time = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    if not MINYEAR < time.year < MAXYEAR:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_local_time(timestamp: str | None, zone: tzinfo | None = None) -> datetime | None:
    """Parse a timestamp into a time in a zone, the machine's own by default; None if it is no timestamp."""
    time = parse_timestamp(timestamp)
    return time.astimezone(zone) if time else None


def elapsed_time(start: str | None, end: str | None) -> timedelta | None:
    """Return the time between two timestamps, None if one is missing or invalid, or they run backwards."""
    started, ended = parse_timestamp(start), parse_timestamp(end)
    return ended - started if started and ended and ended >= started else None


def format_timestamp(time: datetime) -> str:
    """Format a time as Claude Code does: in UTC, to the millisecond.

    >>> format_timestamp(datetime(2026, 1, 5, 9, tzinfo=UTC))
    '2026-01-05T09:00:00.000Z'
    """
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_utc_text(timestamp: str | None) -> str | None:
    """Return a time as RFC 3339 in UTC; None for what is no time.

    >>> to_utc_text("2026-01-05T10:00:00+01:00")
    '2026-01-05T09:00:00.000Z'
    """
    # Nearly all times are written so already; parsing one takes ten times as long.
    if timestamp is not None and _UTC_TEXT.fullmatch(timestamp):
        return timestamp
    time = parse_timestamp(timestamp)
    return None if time is None else format_timestamp(time)


def milliseconds(timestamp: str | None) -> int | None:
    """Return an ISO 8601 time as milliseconds since 1970; None for what is no time. Without an offset it is UTC."""
    time = parse_timestamp(timestamp)
    return None if time is None else milliseconds_of(time)


def milliseconds_of(time: datetime) -> int:
    """Return a time as milliseconds since 1970."""
    return (time - _EPOCH) // _MILLISECOND


def parse_time_range(
    since: str | None, until: str | None, now: datetime, zone: tzinfo | None
) -> tuple[int | None, int | None]:
    """Return the start and the end of a time that people write as `7d` or as a date. The end is not in it."""
    from unspool.display import parse_time_expression  # most commands are given no times

    begin, end = parse_time_expression(since, now, zone), parse_time_expression(until, now, zone, end=True)
    return milliseconds_of(begin) if begin else None, milliseconds_of(end) + 1 if end else None


def local_time(time: int | None, zone: tzinfo | None) -> datetime | None:
    """Return milliseconds since 1970 as a time in a zone; None if there is none, or the calendar has no such day.

    >>> str(local_time(0, UTC))
    '1970-01-01 00:00:00+00:00'
    """
    try:
        return None if time is None else (_EPOCH + timedelta(milliseconds=time)).astimezone(zone)
    except (ValueError, OverflowError):
        return None


def format_time(time: int | None, zone: tzinfo | None, timespec: str = "milliseconds") -> str | None:
    """Return milliseconds since 1970 as ISO 8601 with the zone's offset."""
    at = local_time(time, zone)
    return at.isoformat(timespec=timespec) if at else None


def parse_zone(text: str) -> tzinfo | None:
    """Return the zone that a text names: `Europe/Berlin`, `UTC`, `+05:30`; None for `local`, the machine's own.

    >>> parse_zone("+05:30")
    datetime.timezone(datetime.timedelta(seconds=19800))
    """
    if text.lower() == "local":
        return None
    if text.upper() in {"UTC", "Z"}:
        return UTC
    match = _OFFSET.fullmatch(text)
    hours, minutes = (int(match[2]), int(match[3] or 0)) if match else (0, 0)
    if match and hours <= 14 and minutes in {0, 15, 30, 45}:
        offset = timedelta(hours=hours, minutes=minutes)
        return timezone(-offset if match[1] == "-" else offset)
    from zoneinfo import ZoneInfo  # a report in the machine's own zone does without it

    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        hint = "a name as Europe/Berlin, `UTC`, an offset as +05:30, or `local`"
        raise UsageError(f"unknown time zone `{text}`", hint=hint) from None


def zone_offsets(zone: tzinfo | None) -> tuple[tuple[int, int], ...]:
    """Return until when a zone is how far ahead of UTC, both in milliseconds: where its days begin.

    >>> zone_offsets(UTC)
    ((2208988800000, 0),)
    """
    moments = [datetime(year, month, 1, tzinfo=UTC) for year in range(DAYS_FROM, DAYS_TO) for month in range(1, 13)]
    moments.append(datetime(DAYS_TO, 1, 1, tzinfo=UTC))
    offsets: list[tuple[int, int]] = []
    for earlier, later in pairwise(moments):
        before, after = _offset(earlier, zone), _offset(later, zone)
        while before != after:  # the clocks are set at least once in that month
            low, high = earlier, later
            while high - low > _STEP:
                middle = low + (high - low) // 2 // _STEP * _STEP
                low, high = (middle, high) if _offset(middle, zone) == before else (low, middle)
            offsets.append((milliseconds_of(high), before))
            earlier, before = high, _offset(high, zone)
    return (*offsets, (milliseconds_of(moments[-1]), _offset(moments[-1], zone)))


def _offset(moment: datetime, zone: tzinfo | None) -> int:
    return (moment.astimezone(zone).utcoffset() or timedelta(0)) // _MILLISECOND
