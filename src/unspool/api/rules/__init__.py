"""Checks requests against the Messages API's validation rules; pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.api.rules.problem import Problem
    from unspool.api.rules.turns import ThinkingMemory
    from unspool.api.rules.validate import count_tokens, find_problems

__all__ = ["Problem", "ThinkingMemory", "count_tokens", "find_problems"]

__getattr__ = lazy_door(__name__, {
    "problem": "Problem",
    "turns": "ThinkingMemory",
    "validate": "count_tokens find_problems",
})
