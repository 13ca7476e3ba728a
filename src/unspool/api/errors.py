"""When a request is asked again, and how long to wait before: what went wrong in, seconds out. Pure.

Rules
  1. Only what may be better the next time: too many requests, an overload, a server that failed, a connection that did
     not come about. What the API refuses for what it is, it refuses again.
  2. What the API says (`retry-after`, `x-should-retry`) goes before what we think.
  3. There is an end: so many times, so many seconds in all. A wait that does not fit is not begun.

[merged: refusals.py] What went wrong, as one line and a hint: an HTTP error in, an exception out. No secret is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from unspool.api.endpoint import Endpoint
from unspool.api.events import failed
from unspool.errors import ApiFailed

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


_LONGEST_refusals = 500
_HINTS = {
    401: "is ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN right?",
    403: "this key may not do that",
    404: "is the name of the model right, and ANTHROPIC_BASE_URL?",
    413: "the request is too large: less of the conversation would fit",
    429: "wait a while, then try again",
    529: "the API is overloaded: wait a while, then try again",
}


def refusal(endpoint: Endpoint, status: int, data: bytes, headers: Mapping[str, str]) -> ApiFailed:
    """Return the exception for an answer that is an error."""
    kind, words = _said_refusals(data)
    hint = _HINTS.get(status) or ("try again later" if status >= 500 else None)
    if headers.get("retry-after"):
        hint = f"the API says to wait {headers['retry-after']} s"
    if 300 <= status < 400:
        words, hint = "it is somewhere else", "ANTHROPIC_BASE_URL should be where it is"
    said = endpoint.hide(" ".join((words or "").split()))[:_LONGEST_refusals]
    message = f"the API says {status}{f': {said}' if said else ''}"
    return ApiFailed(message, hint=hint, status=status, kind=kind, request_id=headers.get("request-id"))


def unreachable(endpoint: Endpoint, words: str) -> ApiFailed:
    """Return the exception for an API that does not answer."""
    said = endpoint.hide(" ".join(words.split()))[:_LONGEST_refusals]
    return ApiFailed(f"the API does not answer: {said}", hint=f"can `{endpoint.base_url}` be reached from here?")


def _said_refusals(data: bytes) -> tuple[str | None, str | None]:
    """Return the type and the words of an error, whatever sent it."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return None, None  # a page of some proxy
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        found = failed(value)
        return found.kind, found.reason
    return None, None
