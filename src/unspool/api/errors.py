"""Turns errors of the API into exceptions. Pure. An error is one line and a hint; no secret is in it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unspool.api.endpoint import Endpoint
from unspool.api.events import NO_SUCH_ADDRESS, OPENAI_FORMAT, error_event, name_foreign_body
from unspool.errors import ApiFailed

_MAX_WORDS = 500
_OTHER_APIS = (OPENAI_FORMAT, NO_SUCH_ADDRESS)
_MESSAGES_API = "the Messages API (`/v1/messages`)"
_HINTS = {
    401: "check {key}",
    403: "check what your API key is allowed to do",
    404: "check the model name and {address}",
    413: "shorten the conversation, for example with `/compact`",
    429: "wait, then try again",
    529: "the API is overloaded; wait, then try again",
}


class NoMessagesApi(ApiFailed):
    """A server has no `/v1/messages`; it may have another API."""


def is_messages_error(data: bytes) -> bool:
    """Return whether a body is an error as the Messages API has it."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("type") == "error"


def error_from_response(endpoint: Endpoint, status: int, data: bytes, headers: Mapping[str, str]) -> ApiFailed:
    """Return the exception for a response that is an error."""
    kind, words = _parse_error(data)
    hint = _HINTS.get(status) or ("try again later" if status >= 500 else None)
    hint = hint and hint.format(key=endpoint.key_setting, address=endpoint.address_setting)
    wait = headers.get("retry-after", "").strip()
    # It may also be a date, or 0: then the usual hint says more.
    if wait.isdecimal() and len(wait) < 7 and int(wait) > 0:
        hint = f"wait {int(wait)} s, as the API asks"
    if 300 <= status < 400:
        words, hint = "the API has moved", f"set {endpoint.address_setting} to the new address"
    description = _shorten(endpoint, words or name_foreign_body(data) or "")
    message = f"the API says {status}{f': {description}' if description else ''}"
    lacks_api = status in (404, 405, 501) and endpoint.protocol == "any" and not is_messages_error(data)
    failure = NoMessagesApi if lacks_api else ApiFailed
    return failure(message, hint=hint, status=status, kind=kind, request_id=headers.get("request-id"))


def unreachable_error(endpoint: Endpoint, words: str) -> ApiFailed:
    """Return the exception for an API that does not answer."""
    hint = f"check {endpoint.address_setting} and that this machine can reach the address"
    return ApiFailed(f"no response from {endpoint.shown_url}: {_shorten(endpoint, words)}", hint=hint)


def foreign_error(endpoint: Endpoint, problem: str) -> ApiFailed:
    """Return the exception for a server that answers something else than the Messages API does."""
    wanted = "OpenAI's API (`/v1/chat/completions`)" if endpoint.protocol == "completions" else _MESSAGES_API
    hint = f"set {endpoint.address_setting} to a server that speaks {wanted}"
    kind = NoMessagesApi if problem in _OTHER_APIS else ApiFailed
    return kind(f"{endpoint.shown_url} answers with {_shorten(endpoint, problem)}", hint=hint)


def describe_error(error: Exception) -> str:
    """Return what an HTTP library says went wrong; some of its errors say nothing but their name."""
    return str(error) or type(error).__name__


def _shorten(endpoint: Endpoint, words: str) -> str:
    return endpoint.hide_secrets(" ".join(words.split()))[:_MAX_WORDS]


def _parse_error(data: bytes) -> tuple[str | None, str | None]:
    """Return the type and the words of an error, whatever sent it."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None, None  # a page of some proxy
    match value:
        case {"error": dict()}:
            found = error_event(value)
            return found.kind, found.reason
        case {"error": str() as words} | {"object": "error", "message": str() as words} | {"detail": str() as words}:
            return None, words  # Ollama, vLLM, and servers made with FastAPI
        case _:
            return None, None
