"""What the pages of cost, review and time compute: parts of costs and their reasons, net diffs, spans of time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.page.analysis.cost_reasons import CostReason, EnteredText, RequestContext, explain_request
    from unspool.page.analysis.cost_split import (
        KINDS, CostSplit, CostSum, SplitRequest, agent_of_file, sort_sums, split_request,
    )
    from unspool.page.analysis.file_content import RecordedChange, Replaced
    from unspool.page.analysis.git_patch import format_patch, is_exact, relative_path
    from unspool.page.analysis.line_diff import mark_words
    from unspool.page.analysis.lost_cache import BYTES_PER_TOKEN, MIN_LOST_TOKENS, find_lost_cache
    from unspool.page.analysis.net_diff import OUTSIDE, UNENDED, FileReview, NetHunk, NetLine, review_file
    from unspool.page.analysis.time_spans import (
        KINDS_OF_TIME, StripPart, StripTurn, TimeSpan, build_strip, sum_times,
    )

__all__ = [
    "BYTES_PER_TOKEN", "KINDS", "KINDS_OF_TIME", "MIN_LOST_TOKENS", "OUTSIDE", "UNENDED", "CostReason", "CostSplit",
    "CostSum", "EnteredText", "FileReview", "NetHunk", "NetLine", "RecordedChange", "Replaced", "RequestContext",
    "SplitRequest", "StripPart", "StripTurn", "TimeSpan", "agent_of_file", "build_strip", "explain_request",
    "find_lost_cache", "format_patch", "is_exact", "mark_words", "relative_path", "review_file", "sort_sums",
    "split_request", "sum_times",
]

__getattr__ = lazy_door(__name__, {
    "cost_reasons": "CostReason EnteredText RequestContext explain_request",
    "cost_split": "KINDS CostSplit CostSum SplitRequest agent_of_file sort_sums split_request",
    "file_content": "RecordedChange Replaced",
    "git_patch": "format_patch is_exact relative_path",
    "line_diff": "mark_words",
    "lost_cache": "BYTES_PER_TOKEN MIN_LOST_TOKENS find_lost_cache",
    "net_diff": "OUTSIDE UNENDED FileReview NetHunk NetLine review_file",
    "time_spans": "KINDS_OF_TIME StripPart StripTurn TimeSpan build_strip sum_times",
})
