"""Parses and formats the timestamps of lines. A time without an offset is UTC.

Apart from the other modules of the format, and without `msgspec`: a warm `unspool usage` needs no more of it than this.
"""

from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, tzinfo


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
