"""What the pages of cost, review and time compute: parts of costs and their reasons, net diffs, spans of time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.page.analysis.comparison import (
        FIGURES, GROUPS, ComparedSession, describe_outside_turns, format_figure, group_sessions, list_differences,
        session_data, short_names, turns_data,
    )
    from unspool.page.analysis.cost_reasons import (
        CostReason, EnteredText, RequestContext, explain_request, read_from_cache,
    )
    from unspool.page.analysis.cost_split import (
        KINDS, NO_MODEL, CostSplit, CostSum, SplitRequest, agent_of_file, folder_of, sort_sums, split_request,
        thread_of,
    )
    from unspool.page.analysis.file_content import RecordedChange, Replaced
    from unspool.page.analysis.git_patch import format_patch, is_exact, relative_path, split_patch
    from unspool.page.analysis.line_diff import mark_words
    from unspool.page.analysis.lost_cache import BYTES_PER_TOKEN, MIN_LOST_TOKENS, find_lost_cache
    from unspool.page.analysis.net_diff import OUTSIDE, UNENDED, FileReview, NetHunk, NetLine, review_file
    from unspool.page.analysis.time_spans import (
        KINDS_OF_TIME, StripPart, StripTurn, TimeSpan, build_strip, sum_times,
    )

__all__ = [
    "BYTES_PER_TOKEN", "FIGURES", "GROUPS", "KINDS", "KINDS_OF_TIME", "MIN_LOST_TOKENS", "NO_MODEL", "OUTSIDE",
    "UNENDED", "ComparedSession", "CostReason", "CostSplit", "CostSum", "EnteredText", "FileReview", "NetHunk",
    "NetLine", "RecordedChange", "Replaced", "RequestContext", "SplitRequest", "StripPart", "StripTurn", "TimeSpan",
    "agent_of_file", "build_strip", "describe_outside_turns", "explain_request", "find_lost_cache", "folder_of",
    "format_figure", "format_patch", "group_sessions", "is_exact", "list_differences", "mark_words", "read_from_cache",
    "relative_path", "review_file", "session_data", "short_names", "sort_sums", "split_patch", "split_request",
    "sum_times", "thread_of", "turns_data",
]

__getattr__ = lazy_door(__name__, {
    "comparison":
        "FIGURES GROUPS ComparedSession describe_outside_turns format_figure group_sessions list_differences "
        "session_data short_names turns_data",
    "cost_reasons": "CostReason EnteredText RequestContext explain_request read_from_cache",
    "cost_split":
        "KINDS NO_MODEL CostSplit CostSum SplitRequest agent_of_file folder_of sort_sums split_request thread_of",
    "file_content": "RecordedChange Replaced",
    "git_patch": "format_patch is_exact relative_path split_patch",
    "line_diff": "mark_words",
    "lost_cache": "BYTES_PER_TOKEN MIN_LOST_TOKENS find_lost_cache",
    "net_diff": "OUTSIDE UNENDED FileReview NetHunk NetLine review_file",
    "time_spans": "KINDS_OF_TIME StripPart StripTurn TimeSpan build_strip sum_times",
})
