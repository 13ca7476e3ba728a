"""The list of sessions: a table with facets, as the address filters and orders it.

Rules
  1. The address is the state: filters, order and position. An unknown value is an error, never ignored.
  2. The first rows come with the page; the next ones are the page at the next position.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.display import parse_time_expression, units
from unspool.format import parse_local_time
from unspool.page.html import charts
from unspool.store.catalog import (
    HAS,
    PAGE_ROWS,
    SORTS,
    TEXT_SORTS,
    CatalogPage,
    CatalogRequest,
    CatalogRow,
    FacetValue,
    SessionFilters,
)
from unspool.web.pages.board import live_signs
from unspool.web.serving.responses import Json, check_choice, link, page_routes, parse_number, respond
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site

_MENUS: Final = ("project", "branch", "model", "tool", "file", "month")
_MAX_ROWS: Final = 1000
"""In one response."""


def show_sessions(request: Request) -> Response:
    """Show the list of sessions."""
    services, query = services_of(request), request.query_params
    site = services.site
    catalog_request = parse_request(query, site)
    page = services.catalog.catalog(catalog_request, site.zone)
    order = {name: getattr(catalog_request, name) for name in ("offset", "sort", "reverse")}
    data = {**page.data(), **order, "live": live_signs(request, {row.id for row in page.rows})}
    return respond(request, "sessions.html", data, view=_page_view(page, catalog_request, query, site))


def parse_request(query: QueryParams, site: Site) -> CatalogRequest:
    """Return the request that an address makes."""
    now, values = site.now(), {name: value for name, value in query.items() if value}
    since, until = values.get("since"), values.get("until")
    if month := values.get("month"):
        since, until = since or f"{month}-01", until or _last_day(month)
    has = tuple(name for name in values.get("has", "").split(",") if name)
    for name in has:
        check_choice(name, HAS, "filter")
    filters = SessionFilters(
        text=values.get("q", ""),
        **{name: values.get(name) for name in ("project", "branch", "model", "tool", "file", "thread")},
        has=has,
        since=parse_time_expression(since, now, site.zone),
        until=parse_time_expression(until, now, site.zone, end=True),
        hidden="hidden" in values,
    )
    return CatalogRequest(
        filters=filters,
        sort=check_choice(values.get("sort", "last"), SORTS, "column"),
        reverse="reverse" in values,
        offset=parse_number(query, "offset", 0),
        limit=min(parse_number(query, "limit", PAGE_ROWS), _MAX_ROWS),
    )


def _last_day(month: str) -> str:
    """Return the last day of a month; a text that is no month as it is, to be refused as a time."""
    try:
        first = date.fromisoformat(f"{month}-01")
        return ((first + timedelta(days=31)).replace(day=1) - timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return month


def _page_view(page: CatalogPage, request: CatalogRequest, query: QueryParams, site: Site) -> Json:
    """Return how the data looks: words for numbers, links for what can be chosen."""
    offset = request.offset + len(page.rows)
    has_more = bool(page.rows) and offset < page.total
    kept = {name: value for name, value in query.items() if name not in ("offset", "limit")}
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in page.hidden.items())
    return {
        "rows": [_row_look(row, site) for row in page.rows],
        "address": kept,
        "is_ascending": (request.sort in TEXT_SORTS) != request.reverse,
        "has": [_chip(name, page.facets["has"][name], request, kept) for name in HAS],
        "menus": [_menu(name, page.facets[name], query.get(name, "")) for name in _MENUS],
        "kept": {name: kept[name] for name in ("has", "sort", "reverse", "hidden", "since", "until") if name in kept},
        "next": link("/sessions", kept, offset=offset, limit=query.get("limit")) if has_more else None,
        "hidden": f"{sum(page.hidden.values()):,} hidden: {reasons}" if page.hidden else "",
        "show_hidden": link("/sessions", kept, hidden=None if request.filters.hidden else 1),
        "is_filtered": bool(set(kept) - {"sort", "reverse"}),
        "indexing": site.preferences.indexing,
    }


def _row_look(row: CatalogRow, site: Site) -> Json:
    started, curve = parse_local_time(row.started), row.curve
    return {
        "row": row,
        "title": row.title or "(no title)",
        "started": units.ago(started, site.now()) if started else "",
        "started_at": f"{started.astimezone(site.zone):%Y-%m-%d %H:%M}" if started else "",
        "active": units.duration(timedelta(seconds=row.active_seconds)) if row.active_seconds else "",
        "spark": charts.render_sparkline(curve.points, curve.compactions, curve.requests),
        "tools": ", ".join(f"{name or '?'} {count}" for name, count in list((row.tools or {}).items())[:8]),
        # The address comes from a transcript: only one that is safe to follow becomes a link.
        "requests": [(url, _pull_request_name(url)) for url in row.pull_requests if url.startswith("https://")],
    }


def _pull_request_name(url: str) -> str:
    """Return the number of a pull request, if its address ends with one."""
    last = url.rstrip("/").rpartition("/")[2]
    return f"#{last}" if last.isdigit() else "PR"


def _chip(name: str, count: int, request: CatalogRequest, kept: dict[str, str]) -> Json:
    """Return a filter that can be turned on and off."""
    has = request.filters.has
    others = [other for other in has if other != name] if name in has else [*has, name]
    href = link("/sessions", kept, has=",".join(others) or None)
    return {"name": name, "count": count, "on": name in has, "href": href}


def _menu(name: str, values: list[FacetValue], chosen: str) -> Json:
    listed: list[tuple[str, int | None]] = [(facet.value, facet.sessions) for facet in values]
    if chosen and chosen not in [value for value, _ in listed]:
        listed.insert(0, (chosen, None))
    return {"name": name, "values": listed, "chosen": chosen}


routes = page_routes("/sessions", show_sessions)
