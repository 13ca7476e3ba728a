"""What was asked and what became of it: the record of one request, its secrets hidden; how the API words an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unspool.testing.demands import is_secret
from unspool.testing.script import Failure, Json

HIDDEN = "(hidden)"
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer. Names of headers are lower case; what is secret in them is not kept."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    status: int
    """200 also if the answer broke off."""
    request_id: str
    step: str | None = None
    """Which step of the script answered: `steps.0`, `cues.Say hello..1`, `default`."""
    problems: list[str] = []
    """What the API refuses in it."""
    failure: str | None = None
    """Why the run has failed with it: a broken rule, or something that the script demands and that is lacking."""


def hidden(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without what is secret."""
    return {name.lower(): HIDDEN if is_secret(name) else value for name, value in headers.items()}


def worded(failure: Failure) -> tuple[str, dict[str, str]]:
    """Return the words of a failure in a script, and the headers it comes with."""
    words = failure.message or ("Overloaded" if failure.status == 529 else "as the script has it")
    return words, {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}


def error(status: int, words: str, request_id: str, kind: str | None = None) -> Json:
    """Return an error as the API says it."""
    return {
        "type": "error",
        "error": {"type": kind or TYPES.get(status, "api_error"), "message": words},
        "request_id": request_id,
    }
