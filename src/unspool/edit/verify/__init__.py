"""Verifies planned edits and checks sessions: by the rules, by the API's rules, and by an installed Claude Code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.edit.verify.claude_code import compare_with_claude_code
    from unspool.edit.verify.request_diff import (
        ComparedMessage, Json, compared_messages, content_blocks, find_difference,
    )
    from unspool.edit.verify.verify import violations

__all__ = [
    "ComparedMessage", "Json", "compare_with_claude_code", "compared_messages", "content_blocks", "find_difference",
    "violations",
]

__getattr__ = lazy_door(__name__, {
    "claude_code": "compare_with_claude_code",
    "request_diff": "ComparedMessage Json compared_messages content_blocks find_difference",
    "verify": "violations",
})
