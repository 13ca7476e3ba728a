"""Builds the messages that the API would be sent if a session were resumed now, as Claude Code 2.1.325 sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.graph.context import model_rules
    from unspool.graph.context.attachment_text import TYPED_MEANWHILE
    from unspool.graph.context.blocks import ContextBlock, text_block, without_single_edit
    from unspool.graph.context.build import NO_RESPONSE, build_context, build_thread_context, find_last_model
    from unspool.graph.context.model_rules import context_window
    from unspool.graph.context.pairing import INTERRUPTED_CALL, THINKING_KINDS, TOOL_LOADED, ContextMessage

__all__ = [
    "INTERRUPTED_CALL", "NO_RESPONSE", "THINKING_KINDS", "TOOL_LOADED", "TYPED_MEANWHILE", "ContextBlock",
    "ContextMessage", "build_context", "build_thread_context", "context_window", "find_last_model", "model_rules",
    "text_block", "without_single_edit",
]

__getattr__ = lazy_door(__name__, {
    "attachment_text": "TYPED_MEANWHILE",
    "blocks": "ContextBlock text_block without_single_edit",
    "build": "NO_RESPONSE build_context build_thread_context find_last_model",
    "model_rules": "context_window",
    "pairing": "INTERRUPTED_CALL THINKING_KINDS TOOL_LOADED ContextMessage",
})
