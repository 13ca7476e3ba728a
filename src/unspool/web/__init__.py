"""The web server of `unspool serve`: pages and JSON over the store, behind a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.web.access_token import take_token
    from unspool.web.address import find_address
    from unspool.web.app import create_app
    from unspool.web.auth import AllowedHosts, RequestGuard
    from unspool.web.browser import has_screen, link_file, open_file
    from unspool.web.server import check_host, open_listener, run_server

__all__ = [
    "AllowedHosts", "RequestGuard", "check_host", "create_app", "find_address", "has_screen", "link_file", "open_file",
    "open_listener", "run_server", "take_token",
]

__getattr__ = lazy_door(__name__, {
    "access_token": "take_token",
    "address": "find_address",
    "app": "create_app",
    "auth": "AllowedHosts RequestGuard",
    "browser": "has_screen link_file open_file",
    "server": "check_host open_listener run_server",
})
