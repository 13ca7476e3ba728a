"""Decides which failed requests are sent again, and when. Pure.

Rules
  1. Retried is only what may succeed the next time: too many requests, an overload, a server that failed, a connection
     that did not come about. What the API refuses for what it is, it refuses again.
  2. What the API says (`retry-after`, `x-should-retry`) goes before our own rules.
  3. There is an end: so many attempts, so many seconds in all. A wait that does not fit is not begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_FIRST_DELAY = 0.5
_MAX_DELAY = 32.0
_RETRIED_STATUSES = frozenset({408, 409, 429})


class RetryPolicy(NamedTuple):
    """How often and how long a request is tried."""

    tries: int = 10
    """How many attempts in all."""
    seconds: float = 180.0
    """How long all waits may be together."""
    connect: float = 15.0
    """How long a connection may take."""
    silence: float = 300.0
    """How long the API may send nothing while it answers; it pings now and then."""


DEFAULT_RETRY = RetryPolicy()
QUICK_RETRY = RetryPolicy(tries=2, seconds=3.0, connect=5.0, silence=20.0)
"""For requests that can be done without."""


def is_retryable(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a failed request may succeed the next time."""
    advice = headers.get("x-should-retry")
    return advice == "true" or (advice != "false" and (status in _RETRIED_STATUSES or status >= 500))


def retry_delay(attempt: int, headers: Mapping[str, str], chance: float) -> float:
    """Return how many seconds to wait after an attempt, the first being 1. Chance is a number from 0 to 1."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:  # not there, or a date, which nobody sends here
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    # A large exponent would not fit a float; the jitter keeps clients from retrying all at the same moment.
    return min(_MAX_DELAY, _FIRST_DELAY * 2.0 ** min(attempt - 1, 16)) * (1 - 0.25 * chance)
