"""Checks a session against the rules that Claude Code and the Messages API hold it to; pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.edit.rules.violation import RULES

__all__ = ["RULES"]

__getattr__ = lazy_door(__name__, {
    "violation": "RULES",
})
