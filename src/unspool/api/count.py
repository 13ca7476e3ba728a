"""How many tokens a request is: what is sent to be counted, and an estimate where nobody counts. Pure."""

from __future__ import annotations

from typing import NamedTuple

from unspool.api.events import Json
from unspool.prices.estimate import estimate

ESTIMATED = "the API did not count it"
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "cache_control", "output_config")


class Count(NamedTuple):
    """A number of input tokens."""

    tokens: int
    exact: bool
    """Whether the API has counted them."""
    why: str | None = None
    """Why it has not."""


def countable(body: Json) -> Json:
    """Return what of a request is counted."""
    return {key: body[key] for key in _COUNTED if key in body}


def estimated(body: Json, why: str) -> Count:
    """Return an estimate that says so."""
    return Count(max(1, estimate(body)), exact=False, why=why)
