"""Builds the messages that the API would be sent if a session were resumed now, as Claude Code 2.1.325 sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.graph.context import model_rules
    from unspool.graph.context.blocks import ContextBlock
    from unspool.graph.context.build import NO_RESPONSE, build_context, build_thread_context, find_last_model
    from unspool.graph.context.model_rules import context_window
    from unspool.graph.context.pairing import THINKING_KINDS, ContextMessage

__all__ = [
    "NO_RESPONSE", "THINKING_KINDS", "ContextBlock", "ContextMessage", "build_context", "build_thread_context",
    "context_window", "find_last_model", "model_rules",
]

__getattr__ = lazy_door(__name__, {
    "blocks": "ContextBlock",
    "build": "NO_RESPONSE build_context build_thread_context find_last_model",
    "model_rules": "context_window",
    "pairing": "THINKING_KINDS ContextMessage",
})
