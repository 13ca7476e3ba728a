"""Converts values for the Parquet files: timestamps, dates, numbers, and text that DuckDB accepts.

Rules
  1. NUL and lone surrogates become U+FFFD, in text and, where they are escaped, in JSON.
  2. A timestamp that cannot be parsed is null; one without an offset is UTC. A number that does not fit its column is
     null.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from unspool.format import parse_timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INVALID = re.compile("[\0\ud800-\udfff]")
# Escaped backslashes and valid surrogate pairs are matched so that nothing else is matched inside them.
_ESCAPES = re.compile(
    r"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u(?:[dD][89a-fA-F][0-9a-fA-F]{2}|0000)"
)


def epoch_micros(timestamp: str | None) -> int | None:
    """Return a timestamp as microseconds since 1970; null if it cannot be parsed.

    >>> micros("1970-01-01T00:00:01.5Z")
    1500000
    """
    time = parse_timestamp(timestamp)
    return None if time is None else (time - _EPOCH) // _MICROSECOND


def milliseconds_to_micros(time: int | None) -> int | None:
    """Return milliseconds since 1970, as the store has times, as microseconds."""
    return None if time is None else time * 1000


def epoch_days(text: str | None) -> int | None:
    """Return an ISO date as days since 1970; null if it cannot be parsed.

    >>> days("1970-01-03")
    2
    """
    try:
        return date.fromisoformat(text or "").toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None


def clean_text(text: str) -> str:
    """Return text without the characters that a database refuses."""
    return _INVALID.sub("\ufffd", text)


def clean_json(text: str) -> str:
    """Return JSON without escapes of characters that a database refuses."""
    if "\\u" not in text:
        return text
    return _ESCAPES.sub(lambda found: found[0] if found[1] or found[0] == r"\\" else r"\ufffd", text)


def fit_integer(number: int | None, bits: int) -> int | None:
    """Return a number, or null if a signed integer of this many bits cannot hold it."""
    return number if number is not None and -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None
