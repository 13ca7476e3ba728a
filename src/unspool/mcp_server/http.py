"""Serves the tools over streamable HTTP, behind the request guard of the page: own address, host names, token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from unspool.mcp_server.history import History
from unspool.mcp_server.server import create_server
from unspool.web import RequestGuard

MCP_PATH: Final = "/mcp"
_MAX_BODY_BYTES: Final = 256 * 1024
"""Of a request: queries are short."""


def create_http_app(history: History, guard: RequestGuard) -> Starlette:
    """Return the application that serves a history at `/mcp`, for programs that have the token."""
    # Without sessions: each request is answered by itself, as JSON, and nothing is kept for a client that is gone.
    manager = StreamableHTTPSessionManager(
        app=create_server(history), json_response=True, stateless=True, max_request_body_size=_MAX_BODY_BYTES
    )

    @asynccontextmanager
    async def run(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(
        routes=[Route(MCP_PATH, endpoint=StreamableHTTPASGIApp(manager))],
        middleware=[Middleware(_TokenMiddleware, guard=guard)],
        lifespan=run,
    )


class _TokenMiddleware:
    """Lets requests with the token pass, and answers all others with a refusal."""

    def __init__(self, app: ASGIApp, guard: RequestGuard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self.guard.check_bearer(Headers(scope=scope))) is not None:
            await refusal(scope, receive, send)
            return
        await self.app(scope, receive, send)
