"""The time a person means: words in, a moment out."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from unspool.errors import Usage

_AGO = re.compile(r"(\d{1,5})(h|d|w)")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}


def moment(text: str | None, now: datetime, zone: tzinfo | None = None, *, end: bool = False) -> datetime | None:
    """Return the time meant by `2026-01-05`, `2026-01-05T09:00` or `7d`; of a day its start, or the last of its end.

    What has no offset is meant in the zone, the machine's own if none is given.
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
        raise Usage(f"not a time: `{text}`", hint="a date as 2026-01-05, or `12h`, `7d`, `2w` ago") from None


def _in_zone(read: datetime, zone: tzinfo | None) -> datetime:
    if read.tzinfo is None and zone is not None:
        read = read.replace(tzinfo=zone)
    # By way of UTC: a clock time that is left out where clocks go forward becomes one that there is.
    return read.astimezone(UTC).astimezone(zone)
