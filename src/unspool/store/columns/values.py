"""Values as column files take them: text and JSON without what a database refuses, times as whole microseconds.

Rules
  1. NUL and half a surrogate pair become U+FFFD, in text and, where they are escaped, in JSON.
  2. What is no time is null; a time without an offset is UTC. A number that does not fit its column is null.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from unspool.format.timestamps import moment

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BAD = re.compile("[\0\ud800-\udfff]")
_ESCAPES = re.compile(
    r"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u(?:[dD][89a-fA-F][0-9a-fA-F]{2}|0000)"
)
"""Escaped backslashes and true pairs are matched only to be passed over."""


def micros(timestamp: str | None) -> int | None:
    """Return a time in microseconds since 1970.

    >>> micros("1970-01-01T00:00:01.5Z")
    1500000
    """
    time = moment(timestamp)
    return None if time is None else (time - _EPOCH) // _MICROSECOND


def days(text: str | None) -> int | None:
    """Return a day as days since 1970; nothing for what is none.

    >>> days("1970-01-03")
    2
    """
    try:
        return date.fromisoformat(text or "").toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None


def clean_text(text: str) -> str:
    """Return text that a database takes."""
    return _BAD.sub("\ufffd", text)


def clean_json(text: str) -> str:
    """Return JSON whose strings a database takes."""
    if "\\u" not in text:
        return text
    return _ESCAPES.sub(lambda found: found[0] if found[1] or found[0] == r"\\" else r"\ufffd", text)


def fitting(number: int | None, bits: int) -> int | None:
    """Return a number that has at most so many bits."""
    return number if number is not None and -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None
