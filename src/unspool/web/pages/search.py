"""Search: the filters of `unspool search` in, hits by session and turn out, each with a link to its step."""

from __future__ import annotations

from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.errors import Usage
from unspool.graph.search_text import KINDS
from unspool.store.access import Opened
from unspool.store.search import request as requests
from unspool.store.search.request import Hit, Question
from unspool.store.search.request import Request as Asked
from unspool.store.search.results import AFTER, BEFORE
from unspool.store.search.search import search as searched
from unspool.web.responses import Json, link, page, place_of, session_link, twins
from unspool.web.site import Place

SHOWN: Final = 100
"""Hits, if no number is named."""
_MOST: Final = 2000
_ABOUT: Final = ("title", "project", "branch", "started")
_SHELVES: Final = {"plan": "plans", "todo": "todos", "history": "history"}
"""Kinds of texts that are in the library, and where."""


def search(request: Request) -> Response:
    """Return what was found; without words, what can be asked for."""
    place, query = place_of(request), request.query_params
    hits: list[Hit] = []
    sessions: dict[str, Json] = {}
    if is_asked := bool(query.get("q", "").strip()):
        with place.opened() as opened:
            hits = _found(opened, place, query)
            sessions = _titles(opened, hits)
    limit = _limit(query)
    data = {
        "hits": [hit._asdict() for hit in hits],
        "sessions": sessions,
        "limit": limit,
        "more": len(hits) == limit,
    }
    return page(request, "search.html", data, groups=groups(hits, sessions), kinds=KINDS, is_asked=is_asked)


def asked_of(query: QueryParams) -> Asked:
    """Return what an address asks for."""
    given = {name: value.strip() for name, value in query.items() if value.strip()}
    words = given.get("q", "")
    return Asked(
        words="" if "regex" in given else words,
        regex=words if "regex" in given else None,
        kinds=",".join(one for one in query.getlist("in") if one) or None,
        tool=given.get("tool"),
        target=given.get("path"),
        project=given.get("project"),
        session=given.get("session"),
        since=given.get("since"),
        until=given.get("until"),
        errors="errors" in given,
    )


def _found(opened: Opened, place: Place, query: QueryParams) -> list[Hit]:
    asked = asked_of(query)
    question = Question(
        requests.asked(asked),
        requests.filters(asked, [opened], place.now(), place.zone),
        _limit(query),
        indexed_only=bool(query.get("indexed")) and asked.regex is None,
    )
    return searched(question, [requests.corpus(opened)])


def _limit(query: QueryParams) -> int:
    text = query.get("limit") or str(SHOWN)
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 6):
        raise Usage(f"not a number: `{text}`", hint=f"as in `limit={SHOWN}`")
    return min(max(int(text), 1), _MOST)


def _titles(opened: Opened, hits: list[Hit]) -> dict[str, Json]:
    """Return what the sessions of hits are called."""
    if opened.database is None:
        return {}
    query = f"SELECT {', '.join(_ABOUT)} FROM sessions WHERE session_id = ? ORDER BY source_id DESC"
    found: dict[str, Json] = {}
    for id in dict.fromkeys(hit.session for hit in hits if hit.session):
        if row := opened.database.execute(query, (id,)).fetchone():
            found[id] = dict(zip(_ABOUT, row, strict=True))
    return found


def groups(hits: list[Hit], sessions: dict[str, Json]) -> list[Json]:
    """Return hits by session and turn: the session with the best hit first, its turns in order."""
    by_session: dict[str | None, dict[int | None, list[Hit]]] = {}
    for hit in hits:
        by_session.setdefault(hit.session, {}).setdefault(hit.turn, []).append(hit)
    return [
        {
            "session": id,
            "about": sessions.get(id or "") or dict.fromkeys(_ABOUT),
            "count": sum(map(len, turns.values())),
            "turns": [
                {"number": number, "hits": [_hit(hit) for hit in turns[number]]}
                for number in sorted(turns, key=lambda turn: turn or 0)
            ],
        }
        for id, turns in by_session.items()
    ]


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "href": _href(hit),
        "kind": hit.kind.replace("_", " "),
        "tool": hit.tool,
        "agent": hit.agent,
        "time": (hit.timestamp or "")[:16].replace("T", " "),
        "pieces": pieces(hit.snippet),
        "place": f"{hit.file}:{hit.offset}",
    }


def _href(hit: Hit) -> str | None:
    """Return where a hit can be read: the step of its session, or the library."""
    if hit.kind in _SHELVES:
        return link(f"/library/{_SHELVES[hit.kind]}")
    step = f"{hit.agent}/{hit.offset}" if hit.agent else hit.offset
    return session_link(hit.session, step=step, agent=hit.agent) if hit.session else None


def pieces(snippet: str) -> list[tuple[str, bool]]:
    """Return a snippet in pieces, and whether each is a match.

    >>> pieces("the «tide» table")
    [('the ', False), ('tide', True), (' table', False)]
    """
    found: list[tuple[str, bool]] = []
    for number, part in enumerate(snippet.split(BEFORE)):
        inside, mark, after = part.partition(AFTER) if number else ("", "", part)
        if number and not mark:  # a sign that stood in the text
            inside, after = "", BEFORE + part
        found += [(inside, True), (after, False)]
    return [(text, is_match) for text, is_match in found if text]


routes = twins("/search", search)
