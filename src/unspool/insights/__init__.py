"""Insights: where the money and the time of sessions go, and what would have saved some, with the lines behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.insights.queries import SECTIONS, InsightScope, build_query
    from unspool.insights.report import SHOWN, read_insights

__all__ = ["SECTIONS", "SHOWN", "InsightScope", "build_query", "read_insights"]

__getattr__ = lazy_door(__name__, {
    "queries": "SECTIONS InsightScope build_query",
    "report": "SHOWN read_insights",
})
