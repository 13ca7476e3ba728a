"""A session's page, what it loads on demand, its images, and the stream that follows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
from anyio import to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from unspool.display import resume_command
from unspool.errors import NotFound, UsageError
from unspool.export import Depth, parse_depth, parse_turn_range
from unspool.live.state import ActivityKind
from unspool.other_agents import find_program
from unspool.page import PageView, find_text, read_detail, split_into_batches
from unspool.page.html import PageSurroundings, Renderer, session_links
from unspool.store import IN_FOLDER, folder_parameters
from unspool.store.catalog import find_session_ids
from unspool.web.pages.board import live_signs
from unspool.web.pages.inbox import named_config
from unspool.web.pages.sessions import SessionNeighbours, neighbours
from unspool.web.serving.responses import (
    JSON_SUFFIX,
    json_response,
    link,
    page_routes,
    respond,
    session_link,
    wants_json,
)
from unspool.web.serving.services import services_of
from unspool.web.serving.sse import KEEPALIVE_SECONDS, ServerEvent, resume_position, stream_events

_AGENTS_COST: Final = f"""
SELECT coalesce(sum(cost), 0) FROM (
  SELECT max(cost_micros) AS cost FROM answers WHERE counted = 1 AND agent_id IS NOT NULL AND session_id = :id
    AND source_id IN (SELECT id FROM sources WHERE {IN_FOLDER} AND (session_id = :id
                      OR id IN (SELECT source_id FROM agents WHERE session_id = :id)))
  GROUP BY id)
"""
"""Grouped by response: two config folders may have copies of one, and each counts it."""
_MIN_PREFIX: Final = 4
"""Characters of an id that are looked up."""
_SANDBOX: Final = "default-src 'none'; sandbox"


def show_session(request: Request) -> Response:
    """Show a session, or one of its agents; the beginning of an id leads to the session, or to a list of several."""
    try:
        return _show_session(request)
    except NotFound:
        found = _find_by_prefix(request)
        if found is None:
            raise
        return found


def _find_by_prefix(request: Request) -> Response | None:
    """Return a redirect to the session whose id begins with the one asked for; None if there is none."""
    id, site = _id(request), services_of(request).site
    ids = [found for found, _ in find_session_ids(site.store_folder, site.roots, id)] if len(id) >= _MIN_PREFIX else []
    if not ids or id in ids:
        return None
    if len(ids) > 1:
        address = link(f"/sessions{JSON_SUFFIX if wants_json(request) else ''}", {"q": id, "hidden": 1})
    else:
        path, _, query = session_link(ids[0], **request.query_params).partition("?")
        address = path + (JSON_SUFFIX if wants_json(request) else "") + (f"?{query}" if query else "")
    return RedirectResponse(address, 302)


def _show_session(request: Request) -> Response:
    id, agent = _id(request), _agent(request)
    cost = 0 if agent else _agents_cost(request, id)
    with _open(request) as (view, renderer):
        turns, depth = _turns(request, view), _depth(request)
        row = None if agent else services_of(request).catalog.find(id, str(view.source.path))
        around = _surroundings(request, view, cost)
        if wants_json(request):
            paid = {"cost_micros": row.cost_micros, "unpriced_tokens": row.unpriced_tokens} if row else {}
            return json_response({**view.to_dict(turns, depth), "agents_cost": cost, **paid})
        title = view.outline().head.title
        body = renderer.page(
            view,
            depth,
            turns,
            drawer=_open_step(request, view, renderer),
            around=around,
        )
    return respond(request, "session_page.html", {"title": title, "id": id}, body=body)


def _surroundings(request: Request, view: PageView, agents_cost: int) -> PageSurroundings:
    """Return what the head of a session shows that is not in its file."""
    services, path = services_of(request), str(view.source.path)
    head = view.outline().head
    if view.agent_id:
        # The tree is of the session; this view is of one of its agents.
        with services.open_sessions.open(view.id) as whole:
            member = next((node for node in whole.agents.read_tree() if node.id == view.agent_id), None)
        return PageSurroundings(agent=member)
    row = services.catalog.find(view.id, path)
    beside = _neighbours(request, view.id)
    sign = live_signs(request, [view.id])[view.id]
    is_idle = sign["kind"] == ActivityKind.IDLE.value
    return PageSurroundings(
        agents_cost=agents_cost,
        paid=row.cost_micros if row else None,
        status="" if is_idle else f"{sign['sign']} {sign['words']}",
        status_kind=sign["status"],
        resume="" if find_program(path) else resume_command(view.id, head.cwd, named_config(services, path)),
        previous=(beside.previous["href"], beside.previous["title"]) if beside.previous else None,
        next=(beside.next["href"], beside.next["title"]) if beside.next else None,
        listed=beside.list_href,
    )


def _neighbours(request: Request, id: str) -> SessionNeighbours:
    """Return the sessions beside one in the list that the address names; in the whole list if that is no list."""
    services, listed = services_of(request), request.query_params.get("list", "")
    try:
        return neighbours(services, id, listed)
    except UsageError:
        return neighbours(services, id)


def show_head(request: Request) -> Response:
    """Return the facts at the top of a session's page, for a page that follows it."""
    cost = 0 if _agent(request) else _agents_cost(request, _id(request))
    with _open(request) as (view, renderer):
        around = _surroundings(request, view, cost)
        head = {**msgspec.to_builtins(view.outline().head), "status": around.status, "resume": around.resume}
        return _respond(request, head, lambda: renderer.head(view, around))


def show_rows(request: Request) -> Response:
    """Return the rows of a batch, or of an agent."""
    query, depth = request.query_params, _depth(request)
    with _open(request) as (view, renderer):
        if "block" not in query:
            return HTMLResponse(renderer.agent_rows(view, depth))
        batch = next((batch for batch in split_into_batches(view.index) if batch.id == query["block"]), None)
        if batch is None:
            raise NotFound(f"no part of the session matches `{query['block']}`", hint="reload the page")
        sections, turns = view.sections.read_batch(batch, depth), view.outline().turns
    # After the view is given back, here and below: one thread uses a view, and a long text takes a while to render.
    return HTMLResponse(renderer.sections(sections, turns))


def show_outline(request: Request) -> Response:
    """Return some turns of the outline."""
    with _open(request) as (view, renderer):
        return HTMLResponse(renderer.outline(view.outline(), _turns(request, view)))


def show_detail(request: Request) -> Response:
    """Return everything about a step."""
    query = request.query_params
    with _open(request, with_agent=False) as (view, renderer):
        detail = read_detail(view, query.get("step", ""), whole=bool(query.get("whole")))
    tab, services = query.get("tab", "rendered"), services_of(request)
    if not query.get("whole") or wants_json(request):
        return _respond(request, detail, lambda: renderer.detail(detail, tab))
    with services.large_renderings:
        html = services.render_process.render(view.id, detail, tab)
        return HTMLResponse(renderer.detail(detail, tab) if html is None else html)


def show_chart(request: Request) -> Response:
    """Return context and cost, request by request."""
    with _open(request) as (view, renderer):
        chart = view.chart()
    return _respond(request, chart, lambda: renderer.chart(chart))


def show_agents(request: Request) -> Response:
    """Return the agents as a tree."""
    with _open(request, with_agent=False) as (view, renderer):
        tree = view.agents.read_tree()
    return _respond(request, tree, lambda: renderer.agents(tree))


def show_matches(request: Request) -> Response:
    """Return where words stand in a session."""
    words = request.query_params.get("words", "")[:1000]
    with _open(request, with_agent=False) as (view, renderer):
        matches = find_text(view, words)
    return _respond(request, {"matches": matches}, lambda: renderer.matches(matches, words))


def show_image(request: Request) -> Response:
    """Return an image, as one of the few types that its bytes show it to be."""
    with _open(request, with_agent=False) as (view, _):
        image = view.image(request.path_params["digest"])
    if image is None:
        raise NotFound("no such image in this session")
    headers = {
        "content-security-policy": _SANDBOX,
        # The digest is part of the address: what is there never changes.
        "cache-control": "private, max-age=31536000, immutable",
        "content-disposition": "inline",
    }
    return Response(image.data, media_type=image.mime, headers=headers)


def stream_session(request: Request) -> Response:
    """Send the rows that are new or have changed since the position of the page."""
    since = resume_position(request)
    # Checked first: `int` raises for numbers of very many digits.
    position = int(since) if since.isdecimal() and len(since) < 19 else 0
    return stream_events(_session_events(request, position), services_of(request).streams)


async def _session_events(request: Request, since: int) -> AsyncIterator[ServerEvent | None]:
    changes = services_of(request).watcher.changes
    path, seen = "", 0
    while True:
        number = changes.number
        if not path or changes.has_changed(path, seen):
            path, events = await to_thread.run_sync(_growth_events, request, since)
            for event in events:
                since = int(event.position)
                yield event
        else:
            yield None
        seen = number
        await changes.wait(number, KEEPALIVE_SECONDS)


def _growth_events(request: Request, since: int) -> tuple[str, list[ServerEvent]]:
    """Return the session's file, and what has come since it had so many bytes."""
    with services_of(request).open_sessions.follow(_id(request), _agent(request), since) as (view, growths):
        render = Renderer(session_links(view.id)).growth
        events = [ServerEvent("growth", render(view, growth, Depth.ALL), str(growth.position)) for growth in growths]
        return str(view.source.path), events


def _agents_cost(request: Request, id: str) -> int:
    """Return what the agents of a session have cost, as the store counts it: each response once."""
    with services_of(request).site.open() as access:
        if access.database is None:
            return 0
        values = {**folder_parameters(access.roots), "id": id}
        return int(access.database.execute(_AGENTS_COST, values).fetchone()[0])


def _respond(request: Request, data: object, render: Callable[[], Markup]) -> Response:
    """Return data as JSON if that is requested, else as a part of a page."""
    if wants_json(request):
        return json_response(data)
    return HTMLResponse(render())


@contextmanager
def _open(request: Request, *, with_agent: bool = True) -> Iterator[tuple[PageView, Renderer]]:
    """Open the session that a request names, or its agent."""
    agent = _agent(request) if with_agent else None
    with services_of(request).open_sessions.open(_id(request), agent) as view:
        yield view, Renderer(session_links(view.id))


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def _agent(request: Request) -> str | None:
    return request.query_params.get("agent") or None


def _open_step(request: Request, view: PageView, renderer: Renderer) -> Markup | None:
    """Return the step that the address opens; one that is not there opens nothing."""
    query = request.query_params
    if not query.get("step"):
        return None
    try:
        return renderer.detail(read_detail(view, query["step"]), query.get("tab", "rendered"))
    except NotFound:
        return None


def _depth(request: Request) -> Depth:
    return parse_depth(request.query_params.get("depth"))


def _turns(request: Request, view: PageView) -> range | None:
    turns = request.query_params.get("turns")
    return parse_turn_range(turns, len(view.index.turns) - 1) if turns else None


routes = [
    *page_routes("/session/{id}", show_session),
    Route("/session/{id}/rows", show_rows),
    Route("/session/{id}/outline", show_outline),
    *page_routes("/session/{id}/head", show_head),
    *page_routes("/session/{id}/detail", show_detail),
    *page_routes("/session/{id}/chart", show_chart),
    *page_routes("/session/{id}/agents", show_agents),
    *page_routes("/session/{id}/find", show_matches),
    Route("/session/{id}/events", stream_session),
    Route("/blob/{id}/{digest}", show_image),
]
