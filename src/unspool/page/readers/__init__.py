"""Reads from session files what the pages of cost, review and time are computed from (`page.analysis`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.page.readers.compared_session import (
        PricedRequest, context_messages, read_compared_session, read_paid_requests,
    )
    from unspool.page.readers.file_changes import (
        ChangedFile, ChangedFiles, find_changed_files, read_changes, read_first_versions,
    )
    from unspool.page.readers.file_reviews import read_reviews
    from unspool.page.readers.request_context import read_request_context
    from unspool.page.readers.turn_times import read_turn_spans

__all__ = [
    "ChangedFile", "ChangedFiles", "PricedRequest", "context_messages", "find_changed_files", "read_changes",
    "read_compared_session", "read_first_versions", "read_paid_requests", "read_request_context", "read_reviews",
    "read_turn_spans",
]

__getattr__ = lazy_door(__name__, {
    "compared_session": "PricedRequest context_messages read_compared_session read_paid_requests",
    "file_changes": "ChangedFile ChangedFiles find_changed_files read_changes read_first_versions",
    "file_reviews": "read_reviews",
    "request_context": "read_request_context",
    "turn_times": "read_turn_spans",
})
