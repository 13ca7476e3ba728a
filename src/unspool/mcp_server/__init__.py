"""The MCP server of `unspool mcp`: agents ask for the history of their own sessions; it only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.mcp_server import client_settings
    from unspool.mcp_server.history import History
    from unspool.mcp_server.http import create_http_app
    from unspool.mcp_server.server import create_server, serve_stdio
    from unspool.mcp_server.session_start import offer_earlier_work

__all__ = ["History", "client_settings", "create_http_app", "create_server", "offer_earlier_work", "serve_stdio"]

__getattr__ = lazy_door(__name__, {
    "history": "History",
    "http": "create_http_app",
    "server": "create_server serve_stdio",
    "session_start": "offer_earlier_work",
})
