"""What a session is doing, computed from records, processes and hook signals. No I/O and no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.live.state.approval import ApprovalRules, make_call_check
    from unspool.live.state.events import EVENT_SCHEMA, LiveEvent, event_to_json
    from unspool.live.state.model import (
        Activity, ActivityKind, BoardGroup, SessionStatus, Verdict, describe_verdict, format_elapsed,
    )
    from unspool.live.state.request import UserRequest, describe_request
    from unspool.live.state.rows import BoardRow, row_sort_key, row_to_document, row_to_json

__all__ = [
    "EVENT_SCHEMA", "Activity", "ActivityKind", "ApprovalRules", "BoardGroup", "BoardRow", "LiveEvent", "SessionStatus",
    "UserRequest", "Verdict", "describe_request", "describe_verdict", "event_to_json", "format_elapsed",
    "make_call_check", "row_sort_key", "row_to_document", "row_to_json",
]

__getattr__ = lazy_door(__name__, {
    "approval": "ApprovalRules make_call_check",
    "events": "EVENT_SCHEMA LiveEvent event_to_json",
    "model": "Activity ActivityKind BoardGroup SessionStatus Verdict describe_verdict format_elapsed",
    "request": "UserRequest describe_request",
    "rows": "BoardRow row_sort_key row_to_document row_to_json",
})
