"""The list of sessions: a table with filters and groups, as the address says; the values of a filter; neighbours.

Rules
  1. The address is the state: filters, order, groups and position. An unknown value is an error, never ignored.
  2. The first rows come with the page, fewer than later: they are seen sooner. The next ones are the page at the next
     position. JSON has no such difference.
  3. Of a filter with very many values the page lists the most frequent. `/sessions/values` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.display import parse_time_expression, units
from unspool.format import parse_local_time
from unspool.graph.context import context_window
from unspool.page.html import charts
from unspool.store import user_annotations
from unspool.store.catalog import (
    FACETS,
    GROUPS,
    HAS,
    PAGE_ROWS,
    SORTS,
    TEXT_SORTS,
    CatalogPage,
    CatalogRequest,
    CatalogRow,
    SessionFilters,
)
from unspool.web.pages.board import live_signs
from unspool.web.serving.forms import allow_form_origin
from unspool.web.serving.responses import (
    Json,
    check_choice,
    link,
    page_routes,
    parse_number,
    respond,
    session_link,
    wants_json,
)
from unspool.web.serving.services import WebServices, services_of
from unspool.web.serving.site import Site

_MAX_ROWS: Final = 1000
"""In one response."""
_FIRST_ROWS: Final = 50
"""Without a limit in the address: they fill a screen, and of 5,000 sessions are painted 0.1 s sooner than 200."""
_DEFAULT_LIMIT: Final = 200_000
"""Tokens of the context of an unknown model."""
_LONG_LIMIT: Final = 1_000_000
_COLUMNS: Final = (
    ("title", "Title", "title"), ("project", "Project", "project"), ("last", "Last activity", "last"),
    ("started", "Started", "started"), ("active", "Active", "active number"), ("turns", "Turns", "turns number"),
    ("files", "Files ±", "files number"), ("errors", "Errors", "errors number"), ("context", "Context", "context"),
    ("cost", "Cost", "cost number"),
)  # fmt: skip
"""Columns that can be sorted by: the name in the address, the heading, the classes of its cells."""
_RANGES: Final = (("today", "Today", "today"), ("7d", "7 days", "7d"), ("30d", "30 days", "30d"))
_FORM_FIELDS: Final = ("has", "reverse", "hidden", "group", "starred", "limit")
"""What a form keeps of the address without a field that people see."""
_LIST_PARTS: Final = frozenset({*FACETS, "q", "has", "since", "until", "hidden", "starred", "sort", "reverse", "group"})
"""The parts of an address that say which list it is."""


def show_sessions(request: Request) -> Response:
    """Show the list of sessions."""
    services, query = services_of(request), request.query_params
    site = services.site
    catalog_request = parse_request(query, site)
    if not (wants_json(request) or catalog_request.offset or query.get("limit")):
        catalog_request = msgspec.structs.replace(catalog_request, limit=_FIRST_ROWS)
    page = services.catalog.catalog(catalog_request, site.zone)
    saved = user_annotations.read_annotations(site.folder).filters
    order = {name: getattr(catalog_request, name) for name in ("offset", "sort", "reverse", "group")}
    live = live_signs(request, {row.id for row in page.rows})
    data = {**page.data(), **order, "live": live, "saved_filters": saved}
    view = _page_view(page, catalog_request, query, site)
    return allow_form_origin(respond(request, "sessions.html", data, view=view))


def show_values(request: Request) -> Response:
    """Show all values of a filter, as links to the list with that value added."""
    services, query = services_of(request), request.query_params
    facet = check_choice(query.get("facet") or "project", FACETS, "filter")
    words = query.get("find", "").casefold()
    found = services.catalog.values(facet, parse_request(query, services.site).filters, services.site.zone)
    values = [one for one in found if words in one.value.casefold()]
    kept = _address(query)
    chosen = set(query.getlist(facet))
    hrefs = {one.value: link("/sessions", kept, **{facet: sorted(chosen ^ {one.value})}) for one in values}
    data = {"facet": facet, "total": len(found), "values": [one._asdict() for one in values]}
    return respond(request, "session_values.html", data, hrefs=hrefs, chosen=chosen, back=link("/sessions", kept))


class SessionNeighbours(NamedTuple):
    """The links to the sessions before and after one in a list; None where the list ends."""

    previous: Json | None
    next: Json | None
    list_href: str
    """The list that they are neighbours in."""


def neighbours(services: WebServices, id: str, list_query: str = "") -> SessionNeighbours:
    """Return what is before and after a session in a list, which `list_query` says: the query of `/sessions`.

    Each neighbour has `id`, `title` and `href`; the link carries the list on, in the parameter `list`.
    """
    query = QueryParams(list_query[:4000])
    request = parse_request(query, services.site)
    before, after = services.catalog.neighbours(id, request, services.site.zone)
    # Parts of other pages are dropped: what a link carries on is a list.
    kept = list_query_of(query)

    def row_view(row: CatalogRow | None) -> Json | None:
        if row is None:
            return None
        return {"id": row.id, "title": row.title or "(no title)", "href": session_link(row.id, list=kept or None)}

    return SessionNeighbours(row_view(before), row_view(after), f"/sessions?{kept}" if kept else "/sessions")


def list_query_of(query: QueryParams) -> str:
    """Return the parts of an address that say which list of sessions it is, as a query."""
    return link("", {name: values for name, values in _address(query).items() if name in _LIST_PARTS}).removeprefix("?")


def parse_request(query: QueryParams, site: Site) -> CatalogRequest:
    """Return the request that an address makes."""
    now, values = site.now(), {name: value for name, value in query.items() if value}
    has = tuple(name for value in query.getlist("has") for name in value.split(",") if name)
    for name in has:
        check_choice(name, HAS, "filter")
    for month in filter(None, query.getlist("month")):
        parse_time_expression(f"{month}-01", now, site.zone)
    facets = {name: tuple(dict.fromkeys(filter(None, query.getlist(name)))) for name in FACETS}
    filters = SessionFilters(
        text=values.get("q", ""),
        **facets,
        has=has,
        starred="starred" in values,
        since=parse_time_expression(values.get("since"), now, site.zone),
        until=parse_time_expression(values.get("until"), now, site.zone, end=True),
        hidden="hidden" in values,
        thread=values.get("thread"),
    )
    return CatalogRequest(
        filters=filters,
        sort=check_choice(values.get("sort", "last"), SORTS, "column"),
        reverse="reverse" in values,
        offset=parse_number(query, "offset", 0),
        limit=min(parse_number(query, "limit", PAGE_ROWS), _MAX_ROWS),
        group=check_choice(values["group"], GROUPS, "group") if "group" in values else None,
    )


def _address(query: QueryParams) -> dict[str, list[str]]:
    """Return the parts of an address that are kept, each with all its values."""
    parts = {name: [value for value in query.getlist(name) if value] for name in query}
    return {
        name: values for name, values in parts.items() if values and name not in ("offset", "limit", "facet", "find")
    }


def _page_view(page: CatalogPage, request: CatalogRequest, query: QueryParams, site: Site) -> Json:
    """Return how the data looks: words for numbers, links for what can be chosen."""
    offset = request.offset + len(page.rows)
    has_more = bool(page.rows) and offset < page.total
    kept, own = _address(query), list_query_of(query)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in page.hidden.items())
    rows = [_row_view(row, own, site) for row in page.rows]
    for row, group in zip(rows, page.row_groups, strict=False):
        row["group"] = group
    return {
        "rows": rows,
        "columns": _COLUMNS,
        "address": kept,
        "is_ascending": (request.sort in TEXT_SORTS) != request.reverse,
        "has": [_chip(name, page.facets["has"][name], request, kept) for name in HAS],
        "starred": link("/sessions", kept, starred=None if request.filters.starred else 1),
        "menus": [_menu(name, page.facets, query.getlist(name), kept) for name in FACETS],
        "ranges": [_range(words, since, kept) for _, words, since in _RANGES],
        "groups": [(name, link("/sessions", kept, group=name or None)) for name in ("", *GROUPS)],
        "dates": {name: _date_field(query.get(name, "")) for name in ("since", "until")},
        "kept": [(name, value) for name in _FORM_FIELDS for value in query.getlist(name) if value],
        "next": link("/sessions", kept, offset=offset, limit=query.get("limit")) if has_more else None,
        "hidden": f"{sum(page.hidden.values()):,} hidden: {reasons}" if page.hidden else "",
        "show_hidden": link("/sessions", kept, hidden=None if request.filters.hidden else 1),
        "is_filtered": bool(set(kept) - {"sort", "reverse", "group"}),
        "indexing": site.preferences.indexing,
        "query": own,
    }


def _row_view(row: CatalogRow, own: str, site: Site) -> Json:
    curve = row.curve
    peak = max(curve.points, default=0)
    limit = context_window(row.models[0] if row.models else None) or _DEFAULT_LIMIT
    limit = limit if peak <= limit else _LONG_LIMIT
    return {
        "row": row,
        "title": row.title or "(no title)",
        "href": session_link(row.id, list=own or None),
        **{name: _moment(getattr(row, name), site) for name in ("started", "last")},
        "active": units.duration(timedelta(seconds=row.active_seconds)) if row.active_seconds else "",
        "spark": charts.render_sparkline(curve.points, curve.compactions, curve.requests, limit=limit),
        "limit": limit,
        "tools": ", ".join(f"{name or '?'} {count}" for name, count in list((row.tools or {}).items())[:8]),
        # The address comes from a transcript: only one that is safe to follow becomes a link.
        "requests": [(url, _pull_request_name(url)) for url in row.pull_requests if url.startswith("https://")],
    }


def _moment(text: str | None, site: Site) -> Json:
    """Return a time as an age and in full."""
    time = parse_local_time(text)
    if time is None:
        return {"ago": "", "at": ""}
    return {"ago": units.ago(time, site.now()), "at": f"{time.astimezone(site.zone):%Y-%m-%d %H:%M}"}


def _pull_request_name(url: str) -> str:
    """Return the number of a pull request, if its address ends with one."""
    last = url.rstrip("/").rpartition("/")[2]
    return f"#{last}" if last.isdigit() else "PR"


def _chip(name: str, count: int, request: CatalogRequest, kept: Mapping[str, list[str]]) -> Json:
    """Return a filter that can be turned on and off."""
    has = request.filters.has
    others = [other for other in has if other != name] if name in has else [*has, name]
    href = link("/sessions", kept, has=",".join(others) or None)
    return {"name": name, "count": count, "on": name in has, "href": href}


def _menu(name: str, facets: Mapping[str, Any], chosen: list[str], kept: Mapping[str, list[str]]) -> Json:
    """Return a filter with its values: those that are chosen first, whether or not any session has them."""
    counts: dict[str, int] = dict(facets[name])
    chosen = [value for value in dict.fromkeys(chosen) if value]
    values = [(value, counts.get(value), True) for value in chosen]
    values += [(value, count, False) for value, count in counts.items() if value not in chosen]
    total = facets["totals"][name]
    return {
        "name": name,
        "values": values,
        "chosen": chosen,
        "total": total,
        "is_cut": total > len(counts),
        "all": link("/sessions/values", kept, facet=name),
    }


def _range(words: str, since: str, kept: Mapping[str, list[str]]) -> Json:
    is_on = kept.get("since") == [since] and "until" not in kept
    return {"words": words, "on": is_on, "href": link("/sessions", kept, since=None if is_on else since, until=None)}


def _date_field(text: str) -> tuple[str, str]:
    """Return the type of the field that shows a time of the address, and its text: only a date fits a date field."""
    try:
        return "date", date.fromisoformat(text).isoformat() if text else ""
    except ValueError:
        return "text", text


routes = [*page_routes("/sessions", show_sessions), *page_routes("/sessions/values", show_values)]
