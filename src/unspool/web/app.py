"""The web application: its routes, its error pages and its background tasks.

Rules
  1. Every route is behind the request guard; there is no other way in.
  2. A wrong request is answered with one line and a hint, as on the command line; anything else is a bug and shows as
     one.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from unspool.errors import MissingExtra, NotFound, NothingFound, Refused, TooLarge, UnspoolError, UsageError
from unspool.page.html import create_environment, preload_templates
from unspool.store.catalog import CatalogCache
from unspool.store.search import FailureLog
from unspool.web import assets
from unspool.web.auth import MAX_FORM_BYTES, AuthMiddleware, RequestGuard
from unspool.web.connections import thread_limit
from unspool.web.pages import (
    beside,
    inbox,
    notes,
    palette,
    review,
    same_calls,
    search,
    session,
    sessions,
    share,
    side_documents,
    sql,
    usage,
)
from unspool.web.pages.analysis import compare, cost, insights, time
from unspool.web.serving.background import BoardWatcher, StoreRefresher
from unspool.web.serving.open_sessions import OpenSessions
from unspool.web.serving.render_process import RenderProcess
from unspool.web.serving.responses import link, notes_link, respond, session_link
from unspool.web.serving.seen import SeenFile
from unspool.web.serving.services import WebServices
from unspool.web.serving.site import Site
from unspool.web.serving.sql_engine import KeptEngine
from unspool.web.serving.sse import StreamCounter
from unspool.web.serving.telemetry import TelemetryTask

_STATUS = {NotFound: 404, NothingFound: 404, UsageError: 400, Refused: 403, TooLarge: 413, MissingExtra: 501}


def create_app(site: Site, guard: RequestGuard, telemetry: TelemetryTask | None = None) -> Starlette:
    """Return the application that shows a folder, and sends what is new if it is given a task for that."""
    app = Starlette(
        routes=all_routes(),
        middleware=[Middleware(AuthMiddleware, guard=guard)],
        exception_handlers={UnspoolError: _show_error, HTTPException: _show_http_error},
        lifespan=_lifespan,
        max_body_size=MAX_FORM_BYTES,
    )
    templates = create_environment("unspool.web")
    templates.globals |= {"link": link, "session_link": session_link, "notes_link": notes_link}
    refresher = StoreRefresher(site)
    app.state.services = WebServices(
        site=site,
        templates=templates,
        refresher=refresher,
        watcher=BoardWatcher(site, refresher),
        open_sessions=OpenSessions(site),
        catalog=CatalogCache(site.roots, site.store_folder, site.preferences, annotations=site.folder),
        sql_slots=anyio.Semaphore(sql.MAX_QUERIES),
        large_renderings=threading.Lock(),
        render_process=RenderProcess(),
        streams=StreamCounter(),
        seen=SeenFile(site.folder),
        failures=FailureLog(),
        insights_engine=KeptEngine(site),
    )
    app.state.telemetry = telemetry
    return app


def all_routes() -> list[BaseRoute]:
    """Return every route there is."""
    modules = (
        inbox,
        sessions,
        notes,
        share,
        cost,
        compare,
        insights,
        review,
        time,
        beside,
        same_calls,
        session,
        search,
        usage,
        sql,
        side_documents,
        palette,
        assets,
    )
    return [route for module in modules for route in module.routes]


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    services: WebServices = app.state.services
    to_thread.current_default_thread_limiter().total_tokens = thread_limit()
    async with anyio.create_task_group() as tasks:
        # In a thread beside the server, so that the first page need not wait for templates and lexers.
        tasks.start_soon(to_thread.run_sync, preload_templates)
        tasks.start_soon(services.refresher.run)
        tasks.start_soon(services.watcher.run)
        if app.state.telemetry is not None:
            tasks.start_soon(app.state.telemetry.run, services.watcher)
        yield
        tasks.cancel_scope.cancel()
    services.catalog.close()
    services.insights_engine.close()
    services.render_process.close()
    # Not where it was made: a server that is terminated by a signal does not return there.
    services.site.close()


def _show_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UnspoolError)
    # An error that has no status of its own has that of what it is a kind of.
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    return respond(request, "error.html", {"error": error.message, "hint": error.hint, "status": status}, status=status)


def _show_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code
    message = "page not found" if status == 404 else error.detail.lower()
    return respond(request, "error.html", {"error": message, "hint": None, "status": status}, status=status)
