"""When a request is asked again, and how long to wait before: what went wrong in, seconds out. Pure.

Rules
  1. Only what may be better the next time: too many requests, an overload, a server that failed, a connection that did
     not come about. What the API refuses for what it is, it refuses again.
  2. What the API says (`retry-after`, `x-should-retry`) goes before what we think.
  3. There is an end: so many times, so many seconds in all. A wait that does not fit is not begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_FIRST = 0.5
_LONGEST = 32.0
_RETRIED = frozenset({408, 409, 429})


class Patience(NamedTuple):
    """How long somebody is willing to wait."""

    tries: int = 10
    """How often it is asked in all."""
    seconds: float = 180.0
    """How long all waits may be together."""
    connect: float = 15.0
    """How long a connection may take."""
    silence: float = 300.0
    """How long the API may say nothing while it answers; it pings now and then."""


PATIENT = Patience()
IMPATIENT = Patience(tries=2, seconds=3.0, connect=5.0, silence=20.0)
"""For what can be done without."""


def again(status: int, headers: Mapping[str, str]) -> bool:
    """Tell whether an answer may be better the next time."""
    match headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return status in _RETRIED or status >= 500


def wait(attempt: int, headers: Mapping[str, str], chance: float) -> float:
    """Return how many seconds to wait after an attempt, the first being 1. Chance is a number from 0 to 1."""
    said = _said(headers)
    if said is not None:
        return said
    usual = min(_LONGEST, _FIRST * 2.0 ** min(attempt - 1, 16))
    return usual * (1 - 0.25 * chance)


def _said(headers: Mapping[str, str]) -> float | None:
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:  # not there, or a date, which nobody sends here
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None
