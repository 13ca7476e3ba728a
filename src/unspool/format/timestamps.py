"""Parses the timestamps of lines.

Apart from the other modules of the format, and without `msgspec`: a warm `unspool usage` needs no more of it than this.
"""

from datetime import UTC, datetime


def parse_timestamp(timestamp: str | None) -> datetime | None:
    """Parse an ISO timestamp, None for what is not one. Without an offset it is taken as UTC.

    >>> str(parse_timestamp("2026-01-05T09:00:00"))
    '2026-01-05 09:00:00+00:00'
    """
    try:
        time = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
