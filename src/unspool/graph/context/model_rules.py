"""Knows which model a resumed session continues with, and what each model is sent, as Claude Code 2.1.325 does it.

Measured model by model. A model that is no longer offered is replaced by the default one. Thinking blocks of another
model than the one that continues are not sent again.
"""

from __future__ import annotations

import re
from functools import lru_cache

DEFAULT_MODEL = "claude-opus-5-5"

_DATE_SUFFIX = re.compile(r"(-20\d{6})?(\[1m\])?$")
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
def model_family(model: str) -> str:
    """Return the name of a model without its date and window suffix."""
    return _DATE_SUFFIX.sub("", model)


def model_after_resume(model: str | None) -> str:
    """Return the model that a session continues with after this one."""
    return model_family(model) if model and model_family(model) in _OFFERED else DEFAULT_MODEL


def takes_system_turns(model: str) -> bool:
    """Tell whether a model is sent reminders as system messages between the others, not in user messages."""
    return model_family(model) in _OFFERED - _NO_SYSTEM_TURNS


def has_task_tools(model: str) -> bool:
    """Tell whether a model has tools for tasks: another one is not reminded of them (since 2.1.290).

    In 2.1.325 to 2.1.327 they are the models that take no system messages. A line that has the words of a reminder is
    sent to every model. So are all reminders if the user allows TodoWrite (`--allowedTools`), which no line says.
    """
    return not takes_system_turns(model)


def keeps_tags(model: str) -> bool:
    """Tell whether such system messages keep their `<system-reminder>` tags."""
    return model_family(model) == "claude-sonnet-5"  # measured: the only one


def context_window(model: str | None) -> int | None:
    """Return the token limit of a model's context; None for an unknown model.

    >>> context_window("claude-opus-4-5-20251101"), context_window("claude-sonnet-4-5[1m]"), context_window("other")
    (200000, 1000000, None)
    """
    if not model or not model.startswith("claude-"):
        return None
    if model.endswith("[1m]"):
        return 1_000_000
    return 200_000 if _WINDOW_200K.match(model_family(model)) else None


_WINDOW_200K = re.compile(r"claude-(3-|(opus|sonnet|haiku)-4(-\d)?\Z|4-)")
