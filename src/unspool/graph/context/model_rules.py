"""Which model a resumed session goes on with, and how it is spoken to. Asked of 2.1.325, model by model.

A model that is no longer offered is replaced by the default one. Thinking of another model than the one that goes on is
not sent again.
"""

from __future__ import annotations

import re
from functools import lru_cache

DEFAULT = "claude-opus-5-5"

_DATE = re.compile(r"(-20\d{6})?(\[1m\])?$")
_OFFERED = frozenset(
    {"claude-3-5-sonnet", "claude-fable-5", "claude-fable-5-1", "claude-haiku-4-5", "claude-haiku-5-5",
     "claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-opus-5",
     "claude-opus-5-5", "claude-sonnet-4-5", "claude-sonnet-4-6", "claude-sonnet-5", "claude-sonnet-5-5"}
)  # fmt: skip
_NO_SYSTEM_TURNS = frozenset(
    {"claude-3-5-sonnet", "claude-haiku-4-5", "claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-7",
     "claude-sonnet-4-5", "claude-sonnet-4-6"}
)  # fmt: skip


@lru_cache(maxsize=256)
def family(model: str) -> str:
    """Return a model's name without its date."""
    return _DATE.sub("", model)


def resumed(model: str | None) -> str:
    """Return the model that goes on after this one."""
    return family(model) if model and family(model) in _OFFERED else DEFAULT


def takes_system_turns(model: str) -> bool:
    """Tell whether reminders go to it as system messages between the others, not in the user's."""
    return family(model) in _OFFERED - _NO_SYSTEM_TURNS


def keeps_tags(model: str) -> bool:
    """Tell whether such system messages keep their `<system-reminder>` tags."""
    return family(model) == "claude-sonnet-5"


def window(model: str | None) -> int | None:
    """Return how many tokens a model takes; nothing for one that nobody has described.

    >>> window("claude-opus-4-5-20251101"), window("claude-sonnet-4-5[1m]"), window("other")
    (200000, 1000000, None)
    """
    if not model or not model.startswith("claude-"):
        return None
    if model.endswith("[1m]"):
        return 1_000_000
    return 200_000 if _SMALL.match(family(model)) else None


_SMALL = re.compile(r"claude-(3-|(opus|sonnet|haiku)-4(-\d)?\Z|4-)")
