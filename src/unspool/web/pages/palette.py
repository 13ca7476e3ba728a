"""The palette (Ctrl-K): finds pages and sessions by a few letters."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.store import IN_FOLDER, folder_parameters
from unspool.web.serving.responses import Json, json_response, link, session_link
from unspool.web.serving.services import services_of

_PAGES = (
    ("Inbox", "/"),
    ("Sessions", "/sessions"),
    ("Search", "/search"),
    ("Usage", "/usage"),
    ("SQL", "/sql"),
    ("Library", "/library"),
)
_MAX_SESSIONS = 12
_SESSIONS = f"""
SELECT s.session_id, s.title, s.project FROM sessions s JOIN sources f ON f.id = s.source_id
WHERE s.hidden IS NULL AND {IN_FOLDER}
  AND (instr(lower(s.title), :words) OR instr(lower(coalesce(s.project, '')), :words)
       OR substr(s.session_id, 1, length(:words)) = :words)
ORDER BY s.last DESC LIMIT :most
"""


def list_places(request: Request) -> Response:
    """Return places whose name has the letters: pages, then sessions by title, project or the beginning of an id."""
    words = request.query_params.get("q", "").strip().lower()[:200]  # compared with every title
    places: list[Json] = [
        {"title": name, "note": "page", "href": path} for name, path in _PAGES if words in name.lower()
    ]
    with services_of(request).site.open() as access:
        values = {**folder_parameters(access.roots), "words": words, "most": _MAX_SESSIONS}
        found = access.database.execute(_SESSIONS, values) if access.database else ()
        places += [
            {"title": title or id, "note": project or "", "href": session_link(id)} for id, title, project in found
        ]
    if words:
        places.append({"title": f"Search for “{words}”", "note": "everywhere", "href": link("/search", q=words)})
    return json_response({"places": places})


routes = [Route("/palette.json", list_places)]
