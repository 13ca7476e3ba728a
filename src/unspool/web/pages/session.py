"""A session's page, what it loads on demand, its pictures, and the stream that follows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import msgspec
from anyio import to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from unspool.errors import NotFound
from unspool.export.depth import Depth, depth_of
from unspool.export.outline import chosen
from unspool.page.html.render import Renderer, links
from unspool.page.view import View
from unspool.web.background import Watching
from unspool.web.open_sessions import Views
from unspool.web.responses import TWIN, as_json, page, place_of, twins
from unspool.web.sse import PATIENCE, News, position, stream

_AGENTS_COST: Final = """
SELECT coalesce(sum(cost_micros), 0) FROM answers WHERE counted = 1 AND agent_id IS NOT NULL AND session_id = :id
  AND source_id IN (SELECT id FROM sources WHERE session_id = :id
                    UNION SELECT source_id FROM agents WHERE session_id = :id)
"""
_SANDBOX: Final = "default-src 'none'; sandbox"


def session(request: Request) -> Response:
    """Show a session, or one of its agents."""
    id, agent = _id(request), _agent(request)
    cost = 0 if agent else _agents_cost(request, id)
    with _views(request).open(id, agent) as view:
        turns, depth = _turns(request, view), _depth(request)
        if request.url.path.endswith(TWIN):
            return as_json({**view.data(turns, depth), "agents_cost": cost})
        title = view.outline().head.title
        renderer = Renderer(links(id))
        body = renderer.page(view, depth, turns, drawer=_opened(request, view, renderer), agents_cost=cost)
    return page(request, "session_page.html", {"title": title, "id": id}, body=body)


def rows(request: Request) -> Response:
    """Return the rows of a block, or of an agent."""
    id, asked = _id(request), request.query_params
    with _views(request).open(id, _agent(request)) as view:
        renderer, depth = Renderer(links(id)), _depth(request)
        if "block" not in asked:
            return HTMLResponse(renderer.agent_rows(view, depth))
        block = next((block for block in view.blocks() if block.id == asked["block"]), None)
        if block is None:
            raise NotFound(f"no such part of the session: `{asked['block']}`", hint="load the page again")
        return HTMLResponse(renderer.block(view, block, depth))


def outline(request: Request) -> Response:
    """Return a stretch of the outline."""
    with _views(request).open(_id(request), _agent(request)) as view:
        return HTMLResponse(Renderer(links(view.id)).outline(view, _turns(request, view)))


def detail(request: Request) -> Response:
    """Return everything about a step."""
    asked = request.query_params
    with _views(request).open(_id(request)) as view:
        found = view.detail(asked.get("step", ""), whole=bool(asked.get("whole")))
        if request.url.path.endswith(TWIN):
            return as_json(msgspec.to_builtins(found, str_keys=True))
        return HTMLResponse(Renderer(links(view.id)).detail(found, asked.get("tab", "rendered")))


def chart(request: Request) -> Response:
    """Return context and cost, request by request."""
    with _views(request).open(_id(request), _agent(request)) as view:
        found = view.chart()
        if request.url.path.endswith(TWIN):
            return as_json(msgspec.to_builtins(found, str_keys=True))
        return HTMLResponse(Renderer(links(view.id)).chart(found))


def agents(request: Request) -> Response:
    """Return the agents as a tree."""
    with _views(request).open(_id(request)) as view:
        found = view.agents()
        if request.url.path.endswith(TWIN):
            return as_json(msgspec.to_builtins(found, str_keys=True))
        return HTMLResponse(Renderer(links(view.id)).agents(found))


def find(request: Request) -> Response:
    """Return where words stand in a session."""
    words = request.query_params.get("words", "")[:1000]
    with _views(request).open(_id(request)) as view:
        found = view.find(words)
        if request.url.path.endswith(TWIN):
            return as_json({"matches": msgspec.to_builtins(found, str_keys=True)})
        return HTMLResponse(Renderer(links(view.id)).matches(found, words))


def blob(request: Request) -> Response:
    """Return a picture, as one of the few kinds that its bytes show it to be."""
    digest = request.path_params["digest"]
    with _views(request).open(_id(request)) as view:
        found = view.blob(digest)
    if found is None:
        raise NotFound("there is no such picture in this session")
    headers = {
        "content-security-policy": _SANDBOX,
        "cache-control": "private, max-age=31536000, immutable",
        "content-disposition": "inline",
    }
    return Response(found.data, media_type=found.mime, headers=headers)


def events(request: Request) -> Response:
    """Send the rows that are new or have changed, from the position on that a page was made at."""
    since = position(request)
    return stream(_news(request, int(since) if since.isdecimal() and len(since) < 19 else 0))


async def _news(request: Request, since: int) -> AsyncIterator[News | None]:
    watching: Watching = request.app.state.watching
    path, seen = "", 0
    while True:
        number = watching.bell.number
        if not path or watching.bell.has_changed(path, seen):
            path, news = await to_thread.run_sync(_grown, request, since)
            for one in news:
                since = int(one.position)
                yield one
        else:
            yield None
        seen = number
        await watching.bell.wait(number, PATIENCE)


def _grown(request: Request, since: int) -> tuple[str, list[News]]:
    """Return the session's file, and what has come since it had so many bytes."""
    with _views(request).follow(_id(request), _agent(request), since) as (view, growths):
        told = Renderer(links(view.id)).growth
        news = [News("growth", told(view, grown, Depth.ALL), str(grown.position)) for grown in growths]
        return str(view.source.path), news


def _agents_cost(request: Request, id: str) -> int:
    """Return what the agents of a session have cost, as the store counts it: each response once."""
    with place_of(request).opened() as opened:
        return 0 if opened.database is None else int(opened.database.execute(_AGENTS_COST, {"id": id}).fetchone()[0])


def _id(request: Request) -> str:
    id: str = request.path_params["id"]
    return id


def _agent(request: Request) -> str | None:
    return request.query_params.get("agent") or None


def _views(request: Request) -> Views:
    views: Views = request.app.state.views
    return views


def _opened(request: Request, view: View, renderer: Renderer) -> Markup | None:
    """Return the step that the address opens; one that is not there opens nothing."""
    asked = request.query_params
    try:
        return renderer.detail(view.detail(asked["step"]), asked.get("tab", "rendered")) if asked.get("step") else None
    except NotFound:
        return None


def _depth(request: Request) -> Depth:
    return depth_of(request.query_params.get("depth"))


def _turns(request: Request, view: View) -> range | None:
    wanted = request.query_params.get("turns")
    return chosen(wanted, len(view.index.parts) - 1) if wanted else None


routes = [
    *twins("/session/{id}", session),
    Route("/session/{id}/rows", rows),
    Route("/session/{id}/outline", outline),
    *twins("/session/{id}/detail", detail),
    *twins("/session/{id}/chart", chart),
    *twins("/session/{id}/agents", agents),
    *twins("/session/{id}/find", find),
    Route("/session/{id}/events", events),
    Route("/blob/{id}/{digest}", blob),
]
