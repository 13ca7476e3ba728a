"""What the insights compute beyond SQL: losses of the cache, and suggestions with what they would have saved. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.insights.analysis.cache_losses import CacheLoss, find_losses, sum_losses
    from unspool.insights.analysis.corrections import ShellRun, suggest_commands
    from unspool.insights.analysis.layout import (
        LAYOUT, InsightLayout, describe_row, describe_saving, describe_unknown, format_value,
    )
    from unspool.insights.analysis.rules import AskedCall, asks, suggest_rules
    from unspool.insights.analysis.suggestion import Line, Suggestion, newest_lines

__all__ = [
    "LAYOUT", "AskedCall", "CacheLoss", "InsightLayout", "Line", "ShellRun", "Suggestion", "asks", "describe_row",
    "describe_saving", "describe_unknown", "find_losses", "format_value", "newest_lines", "suggest_commands",
    "suggest_rules", "sum_losses",
]

__getattr__ = lazy_door(__name__, {
    "cache_losses": "CacheLoss find_losses sum_losses",
    "corrections": "ShellRun suggest_commands",
    "layout": "LAYOUT InsightLayout describe_row describe_saving describe_unknown format_value",
    "rules": "AskedCall asks suggest_rules",
    "suggestion": "Line Suggestion newest_lines",
})
