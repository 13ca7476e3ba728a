"""Numbers and times for people: a value in, a few words out. The clock and the time zone are arguments."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

_UNITS = ((604_800, "w"), (86_400, "d"), (3_600, "h"), (60, "min"))


def amount(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 session`, `2,301 sessions`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size(count: int) -> str:
    """Return a number of bytes: `812 bytes`, `1.4 MB`."""
    number, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{count:,} {units[0]}" if units[0] == "bytes" else f"{number:.1f} {units[0]}"


def dollars(micros: int) -> str:
    """Return micro-dollars for people: two decimals, four below one cent.

    >>> dollars(1_234_567), dollars(1_234), dollars(0)
    ('$1.23', '$0.0012', '$0.00')
    """
    places, unit = (4, 100) if 0 < micros < 10_000 else (2, 10_000)
    whole, part = divmod((micros + unit // 2) // unit, 10**places)
    return f"${whole:,}.{part:0{places}}"


def tokens(count: int | None) -> str:
    """Return a number of tokens: `812`, `34k`, `1.2M`; nothing if it is not known.

    >>> tokens(34_567)
    '35k'
    """
    if count is None:
        return ""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"


def duration(passed: timedelta) -> str:
    """Return a length of time: `0.4 s`, `12 s`, `3 min 20 s`, `1 h 5 min`.

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
    """Return how long ago something was; the date where that is more than four weeks, or yet to come.

    >>> ago(datetime(2026, 1, 5, 6), datetime(2026, 1, 5, 9))
    '3 h ago'
    """
    if moment is None:
        return "never"
    seconds = (now - moment).total_seconds()
    if not 0 <= seconds < 28 * 86_400:
        return f"{moment:%Y-%m-%d}"
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now"


def moment(stamp: str | None, zone: tzinfo | None = None) -> datetime | None:
    """Return a timestamp as a time in a zone, the machine's own if none is given; None if it is no timestamp."""
    try:
        read = datetime.fromisoformat(stamp or "")
        return read.astimezone(zone) if read.tzinfo else None
    except (ValueError, OverflowError):
        return None


def span(started: datetime | None, last: datetime | None) -> str:
    """Return from when to when: the day once if it is the same.

    >>> span(datetime(2026, 1, 5, 9, 0), datetime(2026, 1, 5, 9, 30))
    '2026-01-05 09:00 to 09:30'
    """
    if started is None or last is None:
        return ""
    begin = f"{started:%Y-%m-%d %H:%M}"
    end = f"{last:%H:%M}" if started.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return begin if begin.endswith(end) else f"{begin} to {end}"
