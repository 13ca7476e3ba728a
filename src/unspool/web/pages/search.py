"""The search page: hits of `unspool search` by session and turn, each with a link to its step; and failures by kind.

Rules
  1. A filter alone is a search: it lists what it lets pass, the newest first.
  2. The page shows one entry for each thing. Hits of one session with the same text (a prompt that was queued, typed
     and sent; a result and its structured data) are one entry, which says how many they are. The JSON has all hits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.format import format_time
from unspool.graph import PASSAGE_KINDS
from unspool.store import StoreAccess
from unspool.store.catalog import SessionHeading, read_headings
from unspool.store.search import (
    MATCH_END,
    MATCH_START,
    FailureKind,
    SearchHit,
    SearchRequest,
    add_agent_turns,
    count_indexed,
    find_unindexed,
    open_corpus,
    parse_filters,
    parse_terms,
    read_failures,
    search_corpora,
)
from unspool.web.serving.responses import Json, link, page_routes, parse_number, respond, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site

_DEFAULT_LIMIT: Final = 100
_MAX_LIMIT: Final = 2000
_LIBRARY_PAGES: Final = {"plan": "plans", "todo": "todos", "history": "history"}
"""The library page of each kind of text that belongs to no session."""


KIND_WORDS: Final = {
    "prompt": "prompts", "answer": "answers", "thinking": "thinking", "tool_input": "tool calls",
    "tool_result": "tool results", "structured": "details of results", "overflow": "long results in files",
    "summary": "summaries", "title": "titles", "queued": "queued prompts", "todo": "todo lists", "plan": "plans",
    "history": "prompt history",
}  # fmt: skip
"""What people call each kind of text."""
_ONE: Final = {
    **{kind: words.removesuffix("s") for kind, words in KIND_WORDS.items()},
    "structured": "details", "overflow": "long result", "summary": "summary", "thinking": "thinking",
}  # fmt: skip
_FIELDS: Final = ("q", "tool", "path", "project", "session", "since", "until", "errors", "in")
"""The fields of an address of which one is enough for a search."""
_FAILURE_RANGES: Final = (("today", "Today"), ("7d", "7 days"), ("30d", "30 days"), ("all", "All"))


def show_search(request: Request) -> Response:
    """Show the hits of a search, or only the form if nothing is asked for."""
    site, query = services_of(request).site, request.query_params
    limit = min(max(parse_number(query, "limit", _DEFAULT_LIMIT), 1), _MAX_LIMIT)
    hits: list[SearchHit] = []
    sessions: dict[str, Json] = {}
    matching: int | None = None
    if is_asked := any(value.strip() for name in _FIELDS for value in query.getlist(name)):
        with site.open() as access:
            hits = _search(access, site, query, limit)
            sessions = _read_sessions(access, (hit.session for hit in hits if hit.session))
            matching = _count(access, site, query) if len(hits) == limit else len(hits)
    data = {
        "hits": [hit._asdict() for hit in hits],
        "sessions": sessions,
        "limit": limit,
        "more": len(hits) == limit,
        # Of the texts in the index, copies included, so about as many; None if it is not known.
        "matching": matching,
    }
    view: Json = {
        "groups": _group_hits(hits, sessions),
        "kinds": [(kind, KIND_WORDS.get(kind, kind)) for kind in PASSAGE_KINDS],
        "is_asked": is_asked,
        "kept": {name: query.getlist(name) for name in query},
        "failures": link(
            "/search/errors", {name: query[name] for name in ("project", "tool", "since") if name in query}
        ),
    }
    return respond(request, "search.html", data, **view)


def show_failures(request: Request) -> Response:
    """Show failed tool calls and API errors by kind, each kind with its sessions."""
    site, query = services_of(request).site, request.query_params
    since = query.get("since") or "7d"
    wanted = SearchRequest(
        tool=query.get("tool") or None,
        project=query.get("project") or None,
        since=None if since == "all" else since,
        until=query.get("until") or None,
        errors=True,
    )
    with site.open() as access:
        filters = parse_filters(wanted, access, site.now(), site.zone)
        found = read_failures(access, filters)
        ids = [one.session for kind in found.kinds for one in kind.sessions if one.session]
        sessions = _read_sessions(access, ids)
        waiting = find_unindexed(access.database, access.roots) if access.database else []
    data = {
        "since": since,
        "failures": found.failures,
        "rejected": found.rejected,
        "more": found.is_cut,
        "unindexed": len(waiting),
        "kinds": [kind.data() for kind in found.kinds],
        "sessions": sessions,
    }
    kept = {name: value for name, value in query.items() if value}
    view = {
        "kinds": [_failure_view(kind, sessions, site) for kind in found.kinds],
        "ranges": [(words, link("/search/errors", kept, since=name), name == since) for name, words in _FAILURE_RANGES],
    }
    return respond(request, "failures.html", data, view=view)


def _failure_view(kind: FailureKind, sessions: dict[str, Json], site: Site) -> Json:
    return {
        "kind": kind,
        "sessions": [
            {
                "href": _step_href(one.session, one.last.agent, one.last.offset),
                "title": sessions.get(one.session or "", {}).get("title") or one.session or "outside sessions",
                "project": one.last.project or "",
                "count": one.failures,
                "time": (format_time(one.last.time, site.zone, "minutes") or "")[:16].replace("T", " "),
            }
            for one in kind.sessions
        ],
    }


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
    return add_agent_turns(hits, access)


def _count(access: StoreAccess, site: Site, query: QueryParams) -> int | None:
    request = parse_request(query)
    filters = parse_filters(request, access, site.now(), site.zone)
    return count_indexed([open_corpus(access)], parse_terms(request), filters)


def _read_sessions(access: StoreAccess, ids: Iterable[str]) -> dict[str, Json]:
    """Return title, project, branch and start of sessions."""
    return {id: heading._asdict() for id, heading in read_headings(access.database, access.roots, ids).items()}


def _group_hits(hits: list[SearchHit], sessions: dict[str, Json]) -> list[Json]:
    """Return hits by session and turn: the session with the best hit first, its turns in order."""
    by_session: dict[str | None, dict[int | None, list[SearchHit]]] = {}
    for hit in hits:
        by_session.setdefault(hit.session, {}).setdefault(hit.turn, []).append(hit)
    return [
        {
            "session": id,
            "about": sessions.get(id or "") or dict.fromkeys(SessionHeading._fields),
            "count": sum(map(len, turns.values())),
            "turns": [
                {"number": number, "hits": _collapse(turns[number])}
                for number in sorted(turns, key=lambda turn: turn or 0)
            ],
        }
        for id, turns in by_session.items()
    ]


def _collapse(hits: list[SearchHit]) -> list[Json]:
    """Return how hits of one turn look; those with the same text are one entry, the best (rule 2)."""
    same: dict[str, list[SearchHit]] = {}
    for hit in hits:
        text = hit.snippet.replace(MATCH_START, "").replace(MATCH_END, "")
        same.setdefault(text or f"{hit.file} {hit.offset}", []).append(hit)
    return [_hit_view(one, others) for one, *others in same.values()]


def _hit_view(hit: SearchHit, others: list[SearchHit]) -> Json:
    kinds = dict.fromkeys(_ONE.get(other.kind, other.kind) for other in others)
    return {
        "hit": hit,
        "href": _href(hit),
        "pieces": split_snippet(hit.snippet),
        "words": hit.tool or _ONE.get(hit.kind, hit.kind),
        "also": f"the same text {len(others)} more times: {', '.join(kinds)}" if others else "",
        "count": len(others) + 1,
    }


def _href(hit: SearchHit) -> str | None:
    """Return where a hit can be read: the step of its session, or the library."""
    if hit.kind in _LIBRARY_PAGES:
        return link(f"/library/{_LIBRARY_PAGES[hit.kind]}")
    return _step_href(hit.session, hit.agent, hit.offset)


def _step_href(session: str | None, agent: str | None, offset: int) -> str | None:
    step = f"{agent}/{offset}" if agent else offset
    return session_link(session, step=step, agent=agent) if session else None


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


routes = [*page_routes("/search", show_search), *page_routes("/search/errors", show_failures)]
