"""Edits sessions: plans an operation, verifies the result, applies it to files, and undoes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.edit.api import (
        Edited, Planned, apply_edit, changes_as_json, edit_as_json, edit_log, plan_edit, undo_edit,
    )
    from unspool.edit.in_use import find_other_process
    from unspool.edit.model_summary import count_exact_tokens, write_model_summary
    from unspool.edit.redaction import (
        RedactionPlan, RedactionRequest, apply_redaction, find_backups, plan_redaction, shred_backups,
    )
    from unspool.edit.session_text import garbage_collection_paused, parse_session_text
    from unspool.edit.side_files import read_file, read_session_text

__all__ = [
    "Edited", "Planned", "RedactionPlan", "RedactionRequest", "apply_edit", "apply_redaction", "changes_as_json",
    "count_exact_tokens", "edit_as_json", "edit_log", "find_backups", "find_other_process", "garbage_collection_paused",
    "parse_session_text", "plan_edit", "plan_redaction", "read_file", "read_session_text", "shred_backups", "undo_edit",
    "write_model_summary",
]

__getattr__ = lazy_door(__name__, {
    "api": "Edited Planned apply_edit changes_as_json edit_as_json edit_log plan_edit undo_edit",
    "in_use": "find_other_process",
    "model_summary": "count_exact_tokens write_model_summary",
    "redaction":
        "RedactionPlan RedactionRequest apply_redaction find_backups plan_redaction shred_backups",
    "session_text": "garbage_collection_paused parse_session_text",
    "side_files": "read_file read_session_text",
})
