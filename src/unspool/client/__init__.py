"""Runs chats with a model: the agent loop, its tools and permissions, and the front ends for terminal and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.client import start
    from unspool.client.config import ChatOptions, ChatRuntime, ChatSettings, SessionStart
    from unspool.client.protocols import Model

__all__ = ["ChatOptions", "ChatRuntime", "ChatSettings", "Model", "SessionStart", "start"]

__getattr__ = lazy_door(__name__, {
    "config": "ChatOptions ChatRuntime ChatSettings SessionStart",
    "protocols": "Model",
})
