"""Ctrl-K: places to go to, by a few letters."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.store.access import Opened
from unspool.store.sync.changes import WITHIN, within
from unspool.web.responses import Json, as_json, link, place_of, session_link

_PAGES = (
    ("Live", "/"),
    ("Sessions", "/sessions"),
    ("Search", "/search"),
    ("Usage", "/usage"),
    ("SQL", "/sql"),
    ("Library", "/library"),
)
_MOST = 12
_SESSIONS = f"""
SELECT s.session_id, s.title, s.project, s.last FROM sessions s JOIN sources f ON f.id = s.source_id
WHERE s.hidden IS NULL AND {WITHIN}
  AND (instr(lower(s.title), :words) OR instr(lower(coalesce(s.project, '')), :words)
       OR substr(s.session_id, 1, length(:words)) = :words)
ORDER BY s.last DESC LIMIT :most
"""


def palette(request: Request) -> Response:
    """Return places whose name has the letters: pages, then sessions by title, project or the beginning of an id."""
    words = request.query_params.get("q", "").strip().lower()[:200]
    places: list[Json] = [
        {"title": name, "note": "page", "href": path} for name, path in _PAGES if words in name.lower()
    ]
    with place_of(request).opened() as opened:
        places += _sessions(opened, words)
    if words:
        places.append({"title": f"Search for “{words}”", "note": "everywhere", "href": link("/search", q=words)})
    return as_json({"places": places})


def _sessions(opened: Opened, words: str) -> list[Json]:
    if opened.database is None:
        return []
    asked = {**within(opened.root), "words": words, "most": _MOST}
    return [
        {"title": title or id, "note": project or "", "href": session_link(id)}
        for id, title, project, _ in opened.database.execute(_SESSIONS, asked)
    ]


routes = [Route("/palette.json", palette)]
