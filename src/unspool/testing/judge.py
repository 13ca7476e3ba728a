"""A request in, the verdict out: refused, or the step that answers it. No sockets here.

Rules
  1. First what the API looks at: the way to it, headers, JSON, the rules of `strict.py`. Then what the script demands.
  2. A refusal is worded as the API does. What fails the run is kept with the request, once. A request that is larger
     than the script's window does not fail it: a client may not know the window, and learn it from the refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from unspool.prices.estimate import estimate
from unspool.testing.demands import lacking
from unspool.testing.play import Cast, Play
from unspool.testing.script import Json
from unspool.testing.strict import Memory, problems

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
