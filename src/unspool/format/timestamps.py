"""When a line was written: the text of a time in, a time out. Loads no types of lines: a warm report needs no more."""

from datetime import UTC, datetime


def moment(timestamp: str | None) -> datetime | None:
    """Return a time; nothing for what is none. Without an offset it is taken as UTC.

    >>> str(moment("2026-01-05T09:00:00"))
    '2026-01-05 09:00:00+00:00'
    """
    try:
        time = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
