"""Checks a session against the rules that Claude Code and the Messages API hold it to; pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.edit.rules.api_errors import ErrorAdvice, find_error_advice
    from unspool.edit.rules.breakage import BREAKAGES, Breakage, find_breakages
    from unspool.edit.rules.violation import RULES

__all__ = ["BREAKAGES", "RULES", "Breakage", "ErrorAdvice", "find_breakages", "find_error_advice"]

__getattr__ = lazy_door(__name__, {
    "api_errors": "ErrorAdvice find_error_advice",
    "breakage": "BREAKAGES Breakage find_breakages",
    "violation": "RULES",
})
