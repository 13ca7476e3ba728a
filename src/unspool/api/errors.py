"""Turns errors of the API into exceptions. Pure. An error is one line and a hint; no secret is in it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unspool.api.endpoint import Endpoint
from unspool.api.events import error_event
from unspool.errors import ApiFailed

_MAX_WORDS = 500
_HINTS = {
    401: "is ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN right?",
    403: "this key may not do that",
    404: "is the name of the model right, and ANTHROPIC_BASE_URL?",
    413: "the request is too large: less of the conversation would fit",
    429: "wait a while, then try again",
    529: "the API is overloaded: wait a while, then try again",
}


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
