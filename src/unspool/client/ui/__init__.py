"""The terminal front end of a chat, and what it shares with the headless one: opening chats and slash commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.client.ui import find_session, open_chat
    from unspool.client.ui.endpoint_probe import probe_endpoint
    from unspool.client.ui.open_chat import DEFAULT_MODEL, resolve_model

__all__ = ["DEFAULT_MODEL", "find_session", "open_chat", "probe_endpoint", "resolve_model"]

__getattr__ = lazy_door(__name__, {
    "endpoint_probe": "probe_endpoint",
    "open_chat": "DEFAULT_MODEL resolve_model",
})
