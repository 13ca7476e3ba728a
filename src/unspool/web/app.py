"""The application: routes, files, errors, and the tasks that run beside them.

Rules
  1. Every route is behind the guard; there is no other way to ask for anything.
  2. What a person asked wrong is one line with a hint, as on the command line; anything else is a bug and says so.
"""

from __future__ import annotations

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

from unspool.errors import NotFound, NothingFound, Refused, UnspoolError, Usage
from unspool.page.html.render import warm
from unspool.store.catalog.catalog import Shelf
from unspool.web import assets
from unspool.web.auth import Guard, Guarded
from unspool.web.background import Upkeep, Watching
from unspool.web.open_sessions import Views
from unspool.web.pages import board, palette, search, session, sessions, side_documents, sql, usage
from unspool.web.responses import environment, page
from unspool.web.site import Place

_STATUS = {NotFound: 404, NothingFound: 404, Usage: 400, Refused: 403}


def application(place: Place, guard: Guard) -> Starlette:
    """Return the application for a folder."""
    app = Starlette(
        routes=routes(),
        middleware=[Middleware(Guarded, guard=guard)],
        exception_handlers={UnspoolError: _wrong, HTTPException: _missing},
        lifespan=_lifespan,
        max_body_size=1_000_000,
    )
    app.state.place = place
    app.state.environment = environment()
    app.state.upkeep = Upkeep(place)
    app.state.questions = anyio.Semaphore(sql.AT_ONCE)
    app.state.shelf = Shelf(place.root, place.folder, place.settings)
    app.state.watching = Watching(place, app.state.upkeep)
    app.state.views = Views(place)
    return app


def routes() -> list[BaseRoute]:
    """Return every route there is."""
    return [
        *board.routes,
        *sessions.routes,
        *session.routes,
        *search.routes,
        *usage.routes,
        *sql.routes,
        *side_documents.routes,
        *palette.routes,
        *assets.routes,
    ]


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(to_thread.run_sync, warm)  # so that the first page need not wait for templates and lexers
        tasks.start_soon(app.state.upkeep.run)
        tasks.start_soon(app.state.watching.run)
        yield
        tasks.cancel_scope.cancel()
    app.state.shelf.close()


def _wrong(request: Request, error: Exception) -> Response:
    assert isinstance(error, UnspoolError)
    return _said(request, _STATUS.get(type(error), 500), error.message, error.hint)


def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = "there is nothing at this address" if error.status_code == 404 else error.detail.lower()
    return _said(request, error.status_code, words, None)


def _said(request: Request, status: int, message: str, hint: str | None) -> Response:
    answer = page(request, "error.html", {"error": message, "hint": hint, "status": status})
    answer.status_code = status
    return answer
