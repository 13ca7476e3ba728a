"""Responses: a page as HTML, or as JSON at the same address with `.json`.

Rules
  1. The JSON is what the page is made of: a page shows nothing that is not in its data, but for how it looks.
  2. Everything is escaped, and no control character of a transcript gets into a page; only a form's own fields (`| e`)
     have their text as it is, because it is sent back. Markup comes only from our own templates and from functions
     that return `Markup`.
  3. An address is the state: it is made of the path and the query, and nothing else is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from unspool.errors import UsageError
from unspool.store import list_roots
from unspool.web.serving.services import services_of

Json: TypeAlias = dict[str, Any]
Endpoint: TypeAlias = Callable[[Request], Response | Awaitable[Response]]

JSON_SUFFIX = ".json"


def page_routes(path: str, endpoint: Endpoint) -> list[Route]:
    """Return the routes of a page and of its JSON. An endpoint that is no coroutine is called in a thread."""
    # The JSON first: a path parameter would match its suffix too.
    names = ("/", "/index", "/board") if path == "/" else (path,)
    return [*(Route(name + JSON_SUFFIX, endpoint) for name in names), Route(path, endpoint)]


def wants_json(request: Request) -> bool:
    """Tell whether a request is for the JSON of a page."""
    return request.url.path.endswith(JSON_SUFFIX)


def respond(request: Request, template: str, data: Json, *, status: int = 200, **more: Any) -> Response:
    """Return data as JSON if that is requested, else as a page. `more` is for the page alone: how the data looks."""
    if wants_json(request):
        skipped = [{"path": str(one.path), "reason": one.reason} for one in services_of(request).refresher.skipped]
        return json_response({**data, "skipped": skipped}, status)
    return HTMLResponse(render_template(request, template, data=data, **more), status)


def render_template(request: Request, template: str, **more: Any) -> str:
    """Return a template with its values and those of the frame around every page."""
    services = services_of(request)
    site = services.site
    frame = {
        "path": request.url.path,
        "query": request.query_params,
        "root": ", ".join(map(str, list_roots(site.roots))),
        "note": site.describe_progress(),
        "skipped": services.refresher.skipped,
        "needing": services.watcher.count_needing(site.now()),
        # Empty but for a browser that runs no scripts: `frame.js` fills it in from the browser's storage.
        "form_key": getattr(request.state, "form_key", ""),
    }
    return services.templates.get_template(template).render(frame=frame, **more)


def json_response(data: Any, status: int = 200) -> Response:
    """Return data as JSON."""
    try:
        # One call, in which no other thread runs: for a diff of 100,000 lines it is a tenth of what `json` takes.
        text = msgspec.json.encode(data, enc_hook=str)
    except (ValueError, TypeError, OverflowError, RecursionError):  # such as half a surrogate, or a very large number
        plain = msgspec.to_builtins(data, str_keys=True, enc_hook=str)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    # Nothing in it can be taken for markup, even by a browser that guesses the type.
    return Response(text.replace(b"<", b"\\u003c"), status, media_type="application/json")


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


def notes_link(id: str, **query: Any) -> str:
    """Return the address of the notes of a session."""
    return link(f"/notes/{quote(id, safe='')}", query)


def parse_number(query: QueryParams, name: str, default: int, *, example: int | None = None) -> int:
    """Return a number of a query, the default if it has none; raise `UsageError` for anything else."""
    text = query.get(name) or str(default)
    # `isdigit` alone would let digits of other scripts pass.
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise UsageError(f"invalid number `{text}`", hint=f"pass one like `{name}={example or default}`")
    return int(text)


def check_choice(value: str, choices: Collection[str], noun: str) -> str:
    """Return a value of a query that must be one of a few; raise `UsageError` for any other."""
    if value not in choices:
        raise UsageError(f"unknown {noun} `{value}`", hint=f"use one of: {', '.join(choices)}")
    return value
