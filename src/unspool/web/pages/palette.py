"""The palette (Ctrl-K): finds pages, commands, dates, projects and sessions by a few letters.

Rules
  1. What begins with the letters comes before what only has them, and pages, commands and projects before sessions.
  2. A date or an age as people write them (`yesterday`, `2026-10-03`, `7d`) is a place: its sessions and usage.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.display import parse_time_expression
from unspool.errors import UsageError
from unspool.store import IN_FOLDER, folder_parameters, user_annotations
from unspool.web.serving.responses import Json, json_response, link, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site

_PAGES = (
    ("Inbox", "/"),
    ("Sessions", "/sessions"),
    ("Search", "/search"),
    ("Usage", "/usage"),
    ("Insights", "/insights"),
    ("SQL", "/sql"),
    ("Library", "/library"),
)
_COMMANDS = (
    ("Sessions with errors", "/sessions?has=error"),
    ("Sessions of today", "/sessions?since=today"),
    ("Sessions by project", "/sessions?group=project"),
    ("Sessions by branch", "/sessions?group=branch"),
    ("Sessions by day", "/sessions?group=day"),
    ("Starred sessions", "/sessions?starred=1"),
    ("Most expensive sessions", "/sessions?sort=cost"),
    ("Failures of today", "/search/errors?since=today"),
    ("Failures by kind", "/search/errors?since=all"),
    ("Usage by project", "/usage?period=project"),
    ("Usage by model", "/usage?period=model"),
    ("Usage by session", "/usage?period=session"),
    ("Usage of this month", "/usage?range=month"),
    ("5-hour windows", "/usage?period=blocks"),
    ("Plans", "/library/plans"),
    ("Todos", "/library/todos"),
    ("Prompt history", "/library/history"),
    ("Memory", "/library/memory"),
    ("Versions of files", "/library/versions"),
)
_MAX_SESSIONS = 12
_MAX_PROJECTS = 5
_PROJECTS = f"""
SELECT s.project, count(*) FROM sessions s JOIN sources f ON f.id = s.source_id
WHERE s.hidden IS NULL AND {IN_FOLDER} AND instr(lower(s.project), :words)
GROUP BY s.project ORDER BY instr(lower(s.project), :words), count(*) DESC, s.project LIMIT :most
"""
_SESSIONS = f"""
SELECT s.session_id, s.title, s.project FROM sessions s JOIN sources f ON f.id = s.source_id
WHERE s.hidden IS NULL AND {IN_FOLDER}
  AND (instr(lower(s.title), :words) OR instr(lower(coalesce(s.project, '')), :words)
       OR substr(s.session_id, 1, length(:words)) = :words)
ORDER BY s.last DESC LIMIT :most
"""


def list_places(request: Request) -> Response:
    """Return the places that some letters lead to: sessions by title, project or the beginning of an id."""
    site = services_of(request).site
    words = " ".join(request.query_params.get("q", "").lower().split())[:200]  # compared with every title
    places: list[Json] = _named(words, _PAGES, "page")
    if words:
        saved = user_annotations.read_annotations(site.folder).filters
        places += _named(words, _COMMANDS, "command")
        places += _named(words, tuple((name, f"/sessions?{query}") for name, query in saved.items()), "saved filter")
        places += _dates(words, site)
    with site.open() as access:
        values = {**folder_parameters(access.roots), "words": words}
        if access.database is not None:
            projects = access.database.execute(_PROJECTS, {**values, "most": _MAX_PROJECTS}) if words else ()
            places += [
                {"title": name, "note": f"project, {count:,}", "href": link("/sessions", project=name)}
                for name, count in projects
            ]
            found = access.database.execute(_SESSIONS, {**values, "most": _MAX_SESSIONS})
            places += [
                {"title": title or id, "note": project or "", "href": session_link(id)} for id, title, project in found
            ]
    if words:
        places.append({"title": f"Search for “{words}”", "note": "everywhere", "href": link("/search", q=words)})
    return json_response({"places": places})


def _named(words: str, places: Sequence[tuple[str, str]], note: str) -> list[Json]:
    """Return the places whose name has all words, those that begin with them first."""
    parts = words.split()
    found = [(name, path) for name, path in places if all(part in name.lower() for part in parts)]
    found.sort(key=lambda place: not place[0].lower().startswith(words))
    return [{"title": name, "note": note, "href": path} for name, path in found]


def _dates(words: str, site: Site) -> list[Json]:
    """Return the sessions and the usage of a date or an age; nothing if the words are neither."""
    if not any(letter.isdigit() for letter in words) and len(words) < 5:
        return []  # `may` is more often the beginning of a title
    now = site.now()
    try:
        since = parse_time_expression(words, now, site.zone)
        until = parse_time_expression(words, now, site.zone, end=True)
    except UsageError:
        return []
    if since is None or until is None or since > now:
        return []
    # An age has no end of its own: what it means reaches until now.
    times = {"since": words, "until": words if until > since else None}
    day = f"{since.astimezone(site.zone):%Y-%m-%d}"
    return [
        {"title": f"Sessions of {words}", "note": f"from {day}", "href": link("/sessions", times)},
        {"title": f"Usage of {words}", "note": f"from {day}", "href": link("/usage", times)},
        {"title": f"Failures of {words}", "note": f"from {day}", "href": link("/search/errors", times)},
    ]


routes = [Route("/palette.json", list_places)]
