"""The page that shares a session: what leaves, every text that is replaced, and the file as a download.

Rules
  1. The preview and the file are made by the same function from the same fields (`export/share.py`).
  2. The file is sent only for a POST that passes the guard, and as an attachment: it never opens on our own address.
  3. The page works without scripts: one form previews, another downloads what was previewed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.errors import TooLarge
from unspool.export import (
    ShareContent,
    SharePreview,
    ShareRequest,
    copy_for_sharing,
    read_redaction_options,
    read_share_key,
)
from unspool.home import Session
from unspool.page.html import render_shared
from unspool.web.serving.forms import allow_form_origin, read_form
from unspool.web.serving.responses import Json, check_choice, page_routes, respond, session_link
from unspool.web.serving.services import WebServices, services_of

_FORMATS: Final = {
    "html": ("HTML", "text/html; charset=utf-8"),
    "md": ("Markdown", "text/markdown; charset=utf-8"),
    "jsonl": ("JSONL", "application/x-ndjson"),
}
_KINDS: Final = {"home": "user name in a path", "email": "e-mail address", "assignment": "password or key"}
"""Kinds of secrets whose names say too little."""
_MAX_BYTES: Final = 64_000_000
"""Of the session file: a larger one is shared from the terminal, where nobody waits for a page."""
_MAX_SHOWN: Final = 200
"""Texts that are listed on the page."""
_MAX_SHOWN_PLACES: Final = 5
_ID: Final = re.compile(r"[0-9a-f]{10}")


class ShareForm(msgspec.Struct, frozen=True):
    """The fields of the page's form."""

    format: str
    request: ShareRequest
    emails: bool
    homes: bool


def show_share(request: Request) -> Response:
    """Show what a file would contain."""
    fields = {name: request.query_params.getlist(name) for name in request.query_params}
    id = request.path_params["id"]
    form, preview = _preview(services_of(request), id, fields)
    data: Json = {
        "id": id,
        "href": session_link(id),
        "format": form.format,
        "emails": form.emails,
        "homes": form.homes,
        "replaced": preview.replaced,
        **msgspec.to_builtins(preview),
    }
    shown = [(one, _KINDS.get(one.kind, one.kind.replace("-", " ")), one.places[:_MAX_SHOWN_PLACES])
             for one in preview.replacements[:_MAX_SHOWN]]  # fmt: skip
    return allow_form_origin(respond(request, "share.html", data, preview=preview, shown=shown, formats=_FORMATS))


async def download_share(request: Request) -> Response:
    """Send the file."""
    fields = await read_form(request, 1000)
    return await to_thread.run_sync(_make_file, services_of(request), request.path_params["id"], fields)


def _preview(services: WebServices, id: str, fields: Mapping[str, list[str]]) -> tuple[ShareForm, SharePreview]:
    form, session = parse_form(fields), _open_session(services, id)
    with _copy(services, session, form) as copy:
        return form, copy.preview


def _make_file(services: WebServices, id: str, fields: Mapping[str, list[str]]) -> Response:
    form, session = parse_form(fields), _open_session(services, id)
    with _copy(services, session, form) as copy:
        data = b"".join(render_shared(copy, form.format, services.site.preferences.prices))
    name = f"share-{re.sub('[^A-Za-z0-9-]', '', session.id)[:8] or 'session'}.{form.format}"
    headers = {"content-disposition": f'attachment; filename="{name}"', "content-security-policy": "sandbox"}
    return Response(data, media_type=_FORMATS[form.format][1], headers=headers)


def parse_form(fields: Mapping[str, list[str]]) -> ShareForm:
    """Return what a form asks for. The first preview, which has no fields, has the defaults."""
    has = frozenset(fields)
    is_first = "format" not in has
    content = ShareContent("thinking" in has, "results" in has, "images" in has, is_first or "agents" in has)
    turns = " ".join(fields.get("turns", [])).strip() or None
    keep = frozenset(id for id in fields.get("keep", []) if _ID.fullmatch(id))
    form = check_choice("".join(fields.get("format", ["html"])[:1]), _FORMATS, "format")
    request = ShareRequest(content, turns, keep)
    return ShareForm(form, request, is_first or "emails" in has, is_first or "homes" in has)


def _open_session(services: WebServices, id: str) -> Session:
    with services.open_sessions.open(id) as view:
        source, home = view.session.source, view.session.home
    if source.size > _MAX_BYTES:
        raise TooLarge(
            "this session is too large to share from the page", hint=f"run `unspool share {id}` in a terminal"
        )
    # Of its own: a session remembers all of its lines, and the page's must not.
    return Session(source, home)


def _copy(services: WebServices, session: Session, form: ShareForm) -> Any:
    folder = services.site.folder
    options = read_redaction_options(folder, None, emails=form.emails, homes=form.homes)
    return copy_for_sharing(session, form.request, read_share_key(folder), options)


routes = [
    *page_routes("/session/{id}/share", show_share),
    Route("/session/{id}/share/file", download_share, methods=["POST"]),
]
