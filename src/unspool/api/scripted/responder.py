"""A request in, the verdict out: refused, or the step that answers it. No sockets here.

Rules
  1. First what the API looks at: the way to it, headers, JSON, the rules of `strict.py`. Then what the script demands.
  2. A refusal is worded as the API does. What fails the run is kept with the request, once. A request that is larger
     than the script's window does not fail it: a client may not know the window, and learn it from the refusal.

[merged: exchanges.py] What was asked and what became of it: the record of one request, its secrets hidden; how the API words an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from unspool.api.rules.validate import Memory, problems
from unspool.api.scripted.script import Cast, Failure, Json, Play, is_secret, lacking
from unspool.prices.token_estimate import estimate

LARGEST = 32 * 1024 * 1024
MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"


class Asked(NamedTuple):
    """A request as it came. Names of headers are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    data: bytes


class Verdict(NamedTuple):
    """What becomes of a request: an error, a number of tokens, or a step to be said."""

    status: int = 200
    error: str = ""
    body: object = None
    problems: tuple[str, ...] = ()
    failure: str | None = None
    cast: Cast | None = None
    tokens: int | None = None


def judge(asked: Asked, play: Play, memory: Memory, *, strict: bool) -> Verdict:
    """Return what the API does with a request."""
    if asked.path not in (MESSAGES, COUNT):
        return Verdict(404, f"Not found: {asked.path}")
    if asked.method != "POST":
        return Verdict(405, "Method Not Allowed")
    if refused := _headers(asked.headers):
        return refused
    if len(asked.data) > LARGEST:
        return Verdict(413, "Request exceeds the maximum size", failure="the request is larger than 32 MB")
    try:
        body = msgspec.json.decode(asked.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _refused(f"The request body is not valid JSON: {error}", asked.data.decode(errors="replace"))
    if not isinstance(body, dict):
        return _refused("Input should be a valid dictionary or object", body)
    return _judged(asked, body, play, memory if strict else None)


def _judged(asked: Asked, body: Json, play: Play, memory: Memory | None) -> Verdict:
    counting = asked.path == COUNT
    betas = [beta.strip() for beta in asked.headers.get("anthropic-beta", "").split(",") if beta.strip()]
    found = problems(body, memory, betas=betas, counting=counting) if memory is not None else []
    if found:
        said = tuple(problem.message for problem in found)
        return Verdict(400, said[0], body, said, f"the API refuses it: {said[0]}")
    if counting:
        return Verdict(body=body, tokens=max(1, estimate(body)))
    if play.window is not None and (tokens := estimate(body)) > play.window:
        words = f"prompt is too long: {tokens} tokens > {play.window} maximum"
        return Verdict(400, words, body, (words,))
    cast = play.cast(body)
    if cast is None:
        words = "the script has nothing to say to this"
        return Verdict(400, f"{words}; a `default` would be said to everything", body, failure=words)
    demand = cast.step.expect
    if demand is not None and (lacks := lacking(demand, body, asked.headers)):
        words = f"the script expects something else at `{cast.name}`: {'; '.join(lacks)}"
        return Verdict(400, words, body, failure=words, cast=cast)
    return Verdict(body=body, cast=cast)


def _headers(headers: Mapping[str, str]) -> Verdict | None:
    if not headers.get("x-api-key") and not headers.get("authorization"):
        return Verdict(401, "x-api-key header is required", failure="neither `x-api-key` nor `authorization` was sent")
    if not headers.get("anthropic-version"):
        return Verdict(400, "anthropic-version: header is required", failure="`anthropic-version` was not sent")
    return None


def _refused(words: str, body: object) -> Verdict:
    return Verdict(400, words, body, (words,), f"the API refuses it: {words}")


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
