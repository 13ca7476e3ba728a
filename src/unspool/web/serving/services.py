"""The objects that all requests share, and how a request gets them."""

from __future__ import annotations

import threading
from typing import NamedTuple

import anyio
from jinja2 import Environment
from starlette.requests import Request

from unspool.store.catalog import CatalogCache
from unspool.store.search import FailureLog
from unspool.web.serving.background import BoardWatcher, StoreRefresher
from unspool.web.serving.open_sessions import OpenSessions
from unspool.web.serving.render_process import RenderProcess
from unspool.web.serving.seen import SeenFile
from unspool.web.serving.site import Site
from unspool.web.serving.sql_engine import KeptEngine
from unspool.web.serving.sse import StreamCounter


class WebServices(NamedTuple):
    """What the server sets up once for all requests."""

    site: Site
    templates: Environment
    refresher: StoreRefresher
    watcher: BoardWatcher
    open_sessions: OpenSessions
    catalog: CatalogCache
    sql_slots: anyio.Semaphore
    """Limits how many SQL queries run at once."""
    large_renderings: threading.Lock
    """Held by the one thread that shows a very long step: several would leave other pages little of the processor."""
    render_process: RenderProcess
    """Renders very long steps."""
    streams: StreamCounter
    seen: SeenFile
    """Which finished sessions the user has seen."""
    failures: FailureLog
    insights_engine: KeptEngine
    """Answers the queries of the insights, one report at a time."""


def services_of(request: Request) -> WebServices:
    """Return the services of the application that a request was sent to."""
    services: WebServices = request.app.state.services
    return services
