"""The web server of `unspool serve`: pages and JSON over the store, behind a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.web.app import create_app
    from unspool.web.auth import AllowedHosts, RequestGuard
    from unspool.web.server import check_host, open_listener, run_server

__all__ = ["AllowedHosts", "RequestGuard", "check_host", "create_app", "open_listener", "run_server"]

__getattr__ = lazy_door(__name__, {
    "app": "create_app",
    "auth": "AllowedHosts RequestGuard",
    "server": "check_host open_listener run_server",
})
