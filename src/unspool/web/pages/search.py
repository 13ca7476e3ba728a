"""The search page: hits of `unspool search` by session and turn, each with a link to its step."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.graph import PASSAGE_KINDS
from unspool.store import StoreAccess
from unspool.store.search import (
    MATCH_END,
    MATCH_START,
    SearchHit,
    SearchRequest,
    add_agent_turns,
    open_corpus,
    parse_filters,
    parse_terms,
    search_corpora,
)
from unspool.web.serving.responses import Json, link, page_routes, parse_number, respond, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site

_DEFAULT_LIMIT: Final = 100
_MAX_LIMIT: Final = 2000
_ABOUT: Final = ("title", "project", "branch", "started")
_LIBRARY_PAGES: Final = {"plan": "plans", "todo": "todos", "history": "history"}
"""The library page of each kind of text that belongs to no session."""


def show_search(request: Request) -> Response:
    """Show the hits of a search, or only the form if there are no words."""
    site, query = services_of(request).site, request.query_params
    limit = min(max(parse_number(query, "limit", _DEFAULT_LIMIT), 1), _MAX_LIMIT)
    hits: list[SearchHit] = []
    sessions: dict[str, Json] = {}
    if is_asked := bool(query.get("q", "").strip()):
        with site.open() as access:
            hits = _search(access, site, query, limit)
            sessions = _read_sessions(access, hits)
    data = {
        "hits": [hit._asdict() for hit in hits],
        "sessions": sessions,
        "limit": limit,
        "more": len(hits) == limit,
    }
    return respond(
        request, "search.html", data, groups=_group_hits(hits, sessions), kinds=PASSAGE_KINDS, is_asked=is_asked
    )


def parse_request(query: QueryParams) -> SearchRequest:
    """Return the request that an address makes."""
    values = {name: value.strip() for name, value in query.items() if value.strip()}
    words = values.get("q", "")
    return SearchRequest(
        words="" if "regex" in values else words,
        regex=words if "regex" in values else None,
        kinds=",".join(kind for kind in query.getlist("in") if kind) or None,
        target=values.get("path"),
        **{name: values.get(name) for name in ("tool", "project", "session", "since", "until")},
        errors="errors" in values,
    )


def _search(access: StoreAccess, site: Site, query: QueryParams, limit: int) -> list[SearchHit]:
    request = parse_request(query)
    hits = search_corpora(
        [open_corpus(access)],
        parse_terms(request),
        parse_filters(request, access, site.now(), site.zone),
        limit=limit,
        indexed_only=bool(query.get("indexed")) and request.regex is None,
    )
    return add_agent_turns(hits, access.home)


def _read_sessions(access: StoreAccess, hits: list[SearchHit]) -> dict[str, Json]:
    """Return title, project, branch and start of the sessions of hits."""
    if access.database is None:
        return {}
    query = f"SELECT {', '.join(_ABOUT)} FROM sessions WHERE session_id = ? ORDER BY source_id DESC"
    sessions: dict[str, Json] = {}
    for id in dict.fromkeys(hit.session for hit in hits if hit.session):
        if row := access.database.execute(query, (id,)).fetchone():
            sessions[id] = dict(zip(_ABOUT, row, strict=True))
    return sessions


def _group_hits(hits: list[SearchHit], sessions: dict[str, Json]) -> list[Json]:
    """Return hits by session and turn: the session with the best hit first, its turns in order."""
    by_session: dict[str | None, dict[int | None, list[SearchHit]]] = {}
    for hit in hits:
        by_session.setdefault(hit.session, {}).setdefault(hit.turn, []).append(hit)
    return [
        {
            "session": id,
            "about": sessions.get(id or "") or dict.fromkeys(_ABOUT),
            "count": sum(map(len, turns.values())),
            "turns": [
                {"number": number, "hits": [_hit_look(hit) for hit in turns[number]]}
                for number in sorted(turns, key=lambda turn: turn or 0)
            ],
        }
        for id, turns in by_session.items()
    ]


def _hit_look(hit: SearchHit) -> Json:
    return {"hit": hit, "href": _href(hit), "pieces": split_snippet(hit.snippet)}


def _href(hit: SearchHit) -> str | None:
    """Return where a hit can be read: the step of its session, or the library."""
    if hit.kind in _LIBRARY_PAGES:
        return link(f"/library/{_LIBRARY_PAGES[hit.kind]}")
    step = f"{hit.agent}/{hit.offset}" if hit.agent else hit.offset
    return session_link(hit.session, step=step, agent=hit.agent) if hit.session else None


def split_snippet(snippet: str) -> list[tuple[str, bool]]:
    """Return the parts of a snippet, and whether each is a match.

    >>> split_snippet("the «tide» table")
    [('the ', False), ('tide', True), (' table', False)]
    """
    parts: list[tuple[str, bool]] = []
    for number, part in enumerate(snippet.split(MATCH_START)):
        inside, mark, after = part.partition(MATCH_END) if number else ("", "", part)
        if number and not mark:  # the character stood in the text itself
            inside, after = "", MATCH_START + part
        parts += [(inside, True), (after, False)]
    return [(text, is_match) for text, is_match in parts if text]


routes = page_routes("/search", show_search)
