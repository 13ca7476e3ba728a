"""Plans edits: a session and an operation in, the bytes of the edited session out; nothing is read or written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.edit.planning.compress import SUMMARY_BEGINNING, read_summary
    from unspool.edit.planning.plan import Clone, Compress, Fork, Move, Operation, Payback, Redact, Repair, Trim, TrimTo
    from unspool.edit.planning.shrink import (
        STUB_PREFIX, describe_call, find_superseded_reads, format_media_stub, format_stub, list_open_todos, named_file,
        replace_parts, shorten_long_parts,
    )

__all__ = [
    "STUB_PREFIX", "SUMMARY_BEGINNING", "Clone", "Compress", "Fork", "Move", "Operation", "Payback", "Redact", "Repair",
    "Trim", "TrimTo", "describe_call", "find_superseded_reads", "format_media_stub", "format_stub", "list_open_todos",
    "named_file", "read_summary", "replace_parts", "shorten_long_parts",
]

__getattr__ = lazy_door(__name__, {
    "compress": "SUMMARY_BEGINNING read_summary",
    "plan": "Clone Compress Fork Move Operation Payback Redact Repair Trim TrimTo",
    "shrink":
        "STUB_PREFIX describe_call find_superseded_reads format_media_stub format_stub list_open_todos named_file "
        "replace_parts shorten_long_parts",
})
