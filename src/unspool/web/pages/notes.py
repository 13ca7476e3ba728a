"""Stars, tags and notes of sessions, and saved filters: the pages that show them, and the forms that change them.

Rules
  1. Every change is a form with the page key (`auth.py`), so it works without scripts; afterwards the browser is led
     back to the page of ours that the form names.
  2. They are kept in a file of their own (`store/user_annotations.py`). `/notes.json` has all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Final
from urllib.parse import quote

from anyio import to_thread
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from unspool.errors import NotFound, UsageError
from unspool.store import user_annotations
from unspool.web.pages.sessions import list_query_of, parse_request
from unspool.web.serving.forms import allow_form_origin, read_form
from unspool.web.serving.responses import page_routes, respond
from unspool.web.serving.services import WebServices, services_of

_MAX_FIELDS: Final = 20


def show_all_notes(request: Request) -> Response:
    """Show every session with a star, a tag or a note, and the saved filters."""
    services = services_of(request)
    given = user_annotations.read_annotations(services.site.folder)
    sessions = [{"id": id, "title": services.catalog.title(id), **one.data()} for id, one in given.sessions.items()]
    data = {"sessions": sessions, "filters": given.filters}
    return allow_form_origin(respond(request, "notes.html", data))


def show_notes(request: Request) -> Response:
    """Show the star, the tags and the note of a session, in a form."""
    services, id = services_of(request), request.path_params["id"]
    title = _require_title(services, id)
    given = user_annotations.read_annotations(services.site.folder)
    tags = sorted({tag for notes in given.sessions.values() for tag in notes.tags})
    data = {"id": id, "title": title, **given.of(id).data(), "known_tags": tags}
    return allow_form_origin(
        respond(request, "session_notes.html", data, back=_own_path(request.query_params.get("back")))
    )


async def save_notes(request: Request) -> Response:
    """Save the star, the tags and the note of a session."""
    fields, id = await _read_fields(request), request.path_params["id"]
    tags, note = (
        user_annotations.parse_tags(fields.get("tags", "")),
        fields.get("note", "").replace("\r\n", "\n").strip(),
    )
    new = user_annotations.SessionAnnotation("starred" in fields, tags, note)
    await _change(services_of(request), id, lambda _: new)
    return RedirectResponse(_own_path(fields.get("back")) or f"/notes/{quote(id, safe='')}", 303)


async def save_star(request: Request) -> Response:
    """Give a session a star, or take it away: the buttons `star` and `unstar` have its id."""
    fields = await _read_fields(request)
    is_starred = "star" in fields
    id = fields.get("star") or fields.get("unstar") or ""
    await _change(services_of(request), id, lambda given: given._replace(starred=is_starred))
    return RedirectResponse(_own_path(fields.get("back")) or "/sessions", 303)


async def save_list(request: Request) -> Response:
    """Save the filters of a list under a name, or remove those of a name."""
    services, fields = services_of(request), await _read_fields(request)
    name, query = fields.get("name", ""), QueryParams(fields.get("query", ""))
    is_removed = "remove" in fields
    parse_request(query, services.site)  # a filter that would be refused is not saved
    kept = list_query_of(query)
    if not is_removed and not kept:
        raise UsageError("there is no filter to save", hint="choose a filter first")
    await to_thread.run_sync(
        user_annotations.save_filter, services.site.folder, name, "" if is_removed else kept, _now(services)
    )
    return RedirectResponse(_own_path(fields.get("back")) or "/sessions", 303)


async def _read_fields(request: Request) -> dict[str, str]:
    """Return the fields of a form, each with its first value."""
    fields = await read_form(request, _MAX_FIELDS, keep_blank=True)
    return {name: values[0] for name, values in fields.items()}


async def _change(
    services: WebServices,
    id: str,
    change: Callable[[user_annotations.SessionAnnotation], user_annotations.SessionAnnotation],
) -> None:
    _require_title(services, id)
    await to_thread.run_sync(user_annotations.change_annotation, services.site.folder, id, change, _now(services))


def _require_title(services: WebServices, id: str) -> str:
    """Return the title of a session; only sessions that exist can be changed."""
    title = services.catalog.title(id)
    if title is None:
        raise NotFound(f"no session matches `{id}`", hint="list sessions at `/sessions`")
    return title


def _now(services: WebServices) -> str:
    return services.site.now().astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _own_path(text: str | None) -> str | None:
    """Return a path of this server; None for anything that might lead elsewhere.

    >>> [_own_path(text) for text in ("/sessions?q=a", "//evil", "/\\\\evil", "https://evil", None)]
    ['/sessions?q=a', None, None, None, None]
    """
    if not text or not text.startswith("/") or text.startswith(("//", "/\\")) or not text.isprintable():
        return None
    return text


routes = [
    Route("/notes/star", save_star, methods=["POST"]),
    Route("/notes/list", save_list, methods=["POST"]),
    *page_routes("/notes", show_all_notes),
    Route("/notes/{id}", save_notes, methods=["POST"]),
    *page_routes("/notes/{id}", show_notes),
]
