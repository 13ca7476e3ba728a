"""Turns errors of the API into exceptions. Pure. An error is one line and a hint; no secret is in it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unspool.api.endpoint import Endpoint
from unspool.api.events import error_event, name_foreign_body
from unspool.errors import ApiFailed

_MAX_WORDS = 500
_HINTS = {
    401: "check ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN",
    403: "check what your API key is allowed to do",
    404: "check the model name and ANTHROPIC_BASE_URL",
    413: "shorten the conversation, for example with `/compact`",
    429: "wait, then try again",
    529: "the API is overloaded; wait, then try again",
}


def error_from_response(endpoint: Endpoint, status: int, data: bytes, headers: Mapping[str, str]) -> ApiFailed:
    """Return the exception for a response that is an error."""
    kind, words = _parse_error(data)
    hint = _HINTS.get(status) or ("try again later" if status >= 500 else None)
    if headers.get("retry-after"):
        hint = f"wait {headers['retry-after']} s, as the API asks"
    if 300 <= status < 400:
        words, hint = "the API has moved", "set ANTHROPIC_BASE_URL to the new address"
    said = _shorten(endpoint, words or name_foreign_body(data) or "")
    message = f"the API says {status}{f': {said}' if said else ''}"
    return ApiFailed(message, hint=hint, status=status, kind=kind, request_id=headers.get("request-id"))


def unreachable_error(endpoint: Endpoint, words: str) -> ApiFailed:
    """Return the exception for an API that does not answer."""
    hint = "check ANTHROPIC_BASE_URL and that this machine can reach the address"
    return ApiFailed(f"no response from {endpoint.shown_url}: {_shorten(endpoint, words)}", hint=hint)


def foreign_error(endpoint: Endpoint, problem: str) -> ApiFailed:
    """Return the exception for a server that answers something else than the Messages API does."""
    hint = "set ANTHROPIC_BASE_URL to a server that speaks the Messages API (`/v1/messages`)"
    return ApiFailed(f"{endpoint.shown_url} answers with {_shorten(endpoint, problem)}", hint=hint)


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
