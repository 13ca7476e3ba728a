"""A page and its JSON twin: data in, an answer out, by the address that was asked.

Rules
  1. What the twin says is what the page is made of: a page shows nothing that is not in its data, but for how it looks.
  2. Everything is escaped. Markup comes only from our own templates and from functions that return `Markup`.
  3. An address is the state: it is made of the path and the query, and nothing else is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from unspool.display import units

if TYPE_CHECKING:
    from unspool.web.site import Place

Json: TypeAlias = dict[str, Any]
Endpoint: TypeAlias = Callable[[Request], Response]

TWIN = ".json"


def twins(path: str, endpoint: Endpoint) -> list[Route]:
    """Return the routes of a page and its twin. The endpoint is called in a thread."""
    return [Route(path + TWIN if path != "/" else "/board" + TWIN, endpoint), Route(path, endpoint)]


def page(request: Request, template: str, data: Json, **more: Any) -> Response:
    """Return the twin if it was asked for, else the page. `more` is for the page alone: how the data looks."""
    if request.url.path.endswith(TWIN):
        return as_json(data)
    return HTMLResponse(rendered(request, template, data=data, **more))


def rendered(request: Request, template: str, **more: Any) -> str:
    """Return a template filled in; the frame around a page knows where it stands."""
    environment: Environment = request.app.state.environment
    place = place_of(request)
    frame = {
        "path": request.url.path,
        "query": request.query_params,
        "root": str(place.root),
        "note": place.note(),
        "needing": request.app.state.watching.needing(place.now()),
    }
    return environment.get_template(template).render(frame=frame, **more)


def as_json(data: Any) -> Response:
    """Return data as JSON. Nothing in it can be taken for markup, whoever looks at it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    safe = text.replace("<", "\\u003c").encode("utf-8", "replace")
    return Response(safe, media_type="application/json")


def place_of(request: Request) -> Place:
    """Return what is shown."""
    place: Place = request.app.state.place
    return place


def link(path: str, query: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """Return an address: a query with some values changed; None takes one out.

    >>> link("/sessions", {"project": "a&b", "sort": "cost"}, sort=None, page=2)
    '/sessions?project=a%26b&page=2'
    """
    values = {key: value for key, value in {**(query or {}), **changes}.items() if value not in (None, "")}
    return f"{path}?{urlencode(values, doseq=True)}" if values else path


def session_link(id: str, **query: Any) -> str:
    """Return the address of a session, whatever its id looks like."""
    return link(f"/session/{quote(id, safe='')}", query)


def environment() -> Environment:
    """Return what templates are made with."""
    made = Environment(
        loader=PackageLoader("unspool.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "amount": units.amount,
        "size": units.size,
        "dollars": units.dollars,
        "tokens": units.tokens,
        "duration": units.duration,
    }
    made.globals |= {"link": link, "session_link": session_link}
    return made
