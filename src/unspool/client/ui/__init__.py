"""The terminal front end of a chat, and what it shares with the headless one: opening chats and slash commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.client.ui import endpoint_probe, find_session, open_chat
    from unspool.client.ui.open_chat import DEFAULT_MODEL, resolve_model

__all__ = ["DEFAULT_MODEL", "endpoint_probe", "find_session", "open_chat", "resolve_model"]

__getattr__ = lazy_door(__name__, {
    "open_chat": "DEFAULT_MODEL resolve_model",
})
