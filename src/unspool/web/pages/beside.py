"""The list of sessions beside a session, on wide screens: those of the list that one came from, or of its project."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from unspool.errors import UsageError
from unspool.format import milliseconds
from unspool.store.catalog import CatalogRow
from unspool.web.pages.board import live_signs
from unspool.web.pages.sessions import list_query_of, parse_request
from unspool.web.serving.responses import (
    Json,
    json_response,
    link,
    page_routes,
    render_template,
    session_link,
    wants_json,
)
from unspool.web.serving.services import services_of

_MAX_ROWS: Final = 60
"""Sessions that are listed: the newest of the list."""


def show_beside(request: Request) -> Response:
    """Return the sessions beside one: title, status and cost of each."""
    services, id = services_of(request), str(request.path_params["id"])
    listed = _list_of(request, id)
    wanted = replace(parse_request(QueryParams(listed), services.site), offset=0, limit=_MAX_ROWS, group=None)
    page = services.catalog.catalog(wanted, services.site.zone)
    signs = live_signs(request, {row.id for row in page.rows})
    data: Json = {
        "session": id,
        "list": listed,
        "total": page.total,
        "sessions": [
            {
                "id": row.id,
                "title": row.title or "(no title)",
                "project": row.project,
                "last": row.last,
                "cost_micros": row.cost_micros,
                "unpriced_tokens": row.unpriced_tokens,
                "status": signs[row.id]["status"],
                "sign": signs[row.id]["sign"],
                "words": signs[row.id]["words"],
                "href": session_link(row.id, list=listed or None),
            }
            for row in page.rows
        ],
    }
    if wants_json(request):
        return json_response(data)
    whens = [services.site.format_time(milliseconds(row.last)) for row in page.rows]
    return HTMLResponse(
        render_template(
            request,
            "beside.html",
            data=data,
            whens=whens,
            project=", ".join(QueryParams(listed).getlist("project")),
            list_href=link(f"/sessions?{listed}" if listed else "/sessions"),
        )
    )


def _list_of(request: Request, id: str) -> str:
    """Return the query of the list that the address names; of the session's project if it names none."""
    services, listed = services_of(request), request.query_params.get("list", "")[:4000]
    try:
        parse_request(QueryParams(listed), services.site)
    except UsageError:
        listed = ""
    if query := list_query_of(QueryParams(listed)):
        return query
    row = _find_row(request, id)
    return list_query_of(QueryParams({"project": row.project})) if row and row.project else ""


def _find_row(request: Request, id: str) -> CatalogRow | None:
    services = services_of(request)
    with services.open_sessions.open(id) as view:
        path = str(view.source.path)
    return services.catalog.find(id, path)


routes = page_routes("/session/{id}/beside", show_beside)
