"""Decides which failed requests are sent again and when, and turns API errors into exceptions. Pure.

Rules
  1. Retried is only what may succeed the next time: too many requests, an overload, a server that failed, a connection
     that did not come about. What the API refuses for what it is, it refuses again.
  2. What the API says (`retry-after`, `x-should-retry`) goes before our own rules.
  3. There is an end: so many attempts, so many seconds in all. A wait that does not fit is not begun.
  4. An error is one line and a hint. No secret is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from unspool.api.endpoint import Endpoint
from unspool.api.events import error_event
from unspool.errors import ApiFailed

_FIRST_DELAY = 0.5
_MAX_DELAY = 32.0
_RETRIED_STATUSES = frozenset({408, 409, 429})
_MAX_WORDS = 500
_HINTS = {
    401: "is ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN right?",
    403: "this key may not do that",
    404: "is the name of the model right, and ANTHROPIC_BASE_URL?",
    413: "the request is too large: less of the conversation would fit",
    429: "wait a while, then try again",
    529: "the API is overloaded: wait a while, then try again",
}


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


def error_from_response(endpoint: Endpoint, status: int, data: bytes, headers: Mapping[str, str]) -> ApiFailed:
    """Return the exception for a response that is an error."""
    kind, words = _parse_error(data)
    hint = _HINTS.get(status) or ("try again later" if status >= 500 else None)
    if headers.get("retry-after"):
        hint = f"the API says to wait {headers['retry-after']} s"
    if 300 <= status < 400:
        words, hint = "it is somewhere else", "ANTHROPIC_BASE_URL should be where it is"
    said = _shorten(endpoint, words or "")
    message = f"the API says {status}{f': {said}' if said else ''}"
    return ApiFailed(message, hint=hint, status=status, kind=kind, request_id=headers.get("request-id"))


def unreachable_error(endpoint: Endpoint, words: str) -> ApiFailed:
    """Return the exception for an API that does not answer."""
    hint = f"can `{endpoint.base_url}` be reached from here?"
    return ApiFailed(f"the API does not answer: {_shorten(endpoint, words)}", hint=hint)


def describe_error(error: Exception) -> str:
    """Return what an HTTP library says went wrong; some of its errors say nothing but their name."""
    return str(error) or type(error).__name__


def _shorten(endpoint: Endpoint, words: str) -> str:
    return endpoint.hide_secrets(" ".join(words.split()))[:_MAX_WORDS]


def _parse_error(data: bytes) -> tuple[str | None, str | None]:
    """Return the type and the words of an error, whatever sent it."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return None, None  # a page of some proxy
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        found = error_event(value)
        return found.kind, found.reason
    return None, None
