"""The list of sessions: what the address asks for in, a table and its facets out.

Rules
  1. The address is the state: filters, order and position. A filter that means nothing is said to be wrong.
  2. The first rows come with the page; the next ones are the page at the next position.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.display import units
from unspool.display.time_words import moment
from unspool.errors import Usage
from unspool.page.html import charts
from unspool.store.catalog.catalog import PAGE, SORTS, WORDS, Catalog, Row, Shelf, Wanted
from unspool.store.catalog.facets import HAS, Filters, Value
from unspool.web.pages.board import signs
from unspool.web.responses import Json, link, page, place_of, twins
from unspool.web.site import Place

_COLUMNS: Final = (
    ("title", "Title", ""),
    ("project", "Project", "wide"),
    ("started", "Started", "wide"),
    ("active", "Active", "number wide"),
    ("turns", "Turns", "number wide"),
    ("files", "Files ±", "number wide"),
    ("errors", "Errors", "number wide"),
    ("context", "Context", "wide"),
    ("cost", "Cost", "number"),
)
"""The columns that can be sorted by, what they are called, how they look."""
_MENUS: Final = ("project", "branch", "model", "tool", "file", "month")
_MOST: Final = 1000
"""Rows at once at most."""


def sessions(request: Request) -> Response:
    """Return the list of sessions."""
    place, query = place_of(request), request.query_params
    wanted = wanted_of(query, place)
    shelf: Shelf = request.app.state.shelf
    found = shelf.catalog(wanted, place.zone)
    live = signs(request, {row.id for row in found.rows})
    order = {"offset": wanted.offset, "sort": wanted.sort, "reverse": wanted.reverse}
    data = {**found.data(), **order, "live": live}
    return page(request, "sessions.html", data, view=_view(found, wanted, query, place))


def wanted_of(query: QueryParams, place: Place) -> Wanted:
    """Return what an address asks for."""
    now, given = place.now(), {name: value for name, value in query.items() if value}
    since, until = given.get("since"), given.get("until")
    if month := given.get("month"):
        since, until = since or f"{month}-01", until or _last_day(month)
    filters = Filters(
        text=given.get("q", ""),
        **{name: given.get(name) for name in ("project", "branch", "model", "tool", "file", "thread")},
        has=_has(given.get("has", "")),
        since=moment(since, now, place.zone),
        until=moment(until, now, place.zone, end=True),
        hidden="hidden" in given,
    )
    sort = given.get("sort", "last")
    if sort not in SORTS:
        raise Usage(f"no such column: `{sort}`", hint=f"one of {', '.join(SORTS)}")
    offset, limit = _number(given, "offset", 0), _number(given, "limit", PAGE)
    reverse = "reverse" in given
    return Wanted(filters=filters, sort=sort, reverse=reverse, offset=offset, limit=min(limit, _MOST))


def _has(text: str) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    for name in names:
        if name not in HAS:
            raise Usage(f"no such thing to have: `{name}`", hint=f"one of {', '.join(HAS)}")
    return names


def _number(given: dict[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Usage(f"not a number: `{text}`", hint=f"as in `{name}={default}`")
    return int(text)


def _last_day(month: str) -> str:
    """Return the last day of a month, or what was given, which will be said to be no time."""
    try:
        first = date.fromisoformat(f"{month}-01")
        return ((first + timedelta(days=31)).replace(day=1) - timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return month


def _view(found: Catalog, wanted: Wanted, query: QueryParams, place: Place) -> Json:
    """Return how it looks: words for numbers, links for what can be chosen."""
    next_at = wanted.offset + len(found.rows)
    kept = {name: value for name, value in query.items() if name not in ("offset", "limit")}
    return {
        "rows": [_row(row, place) for row in found.rows],
        "columns": [_column(name, words, look, wanted, kept) for name, words, look in _COLUMNS],
        "has": [_chip(name, found.facets["has"][name], wanted, kept) for name in HAS],
        "menus": [_menu(name, found.facets[name], query.get(name, "")) for name in _MENUS],
        "kept": {name: kept[name] for name in ("has", "sort", "reverse", "hidden", "since", "until") if name in kept},
        "next": _next(found, next_at, kept, query.get("limit")),
        "hidden": _hidden(found.hidden),
        "show_hidden": link("/sessions", kept, hidden=None if wanted.filters.hidden else 1),
        "is_filtered": bool(set(kept) - {"sort", "reverse"}),
        "indexing": place.settings.indexing,
    }


def _next(found: Catalog, offset: int, kept: dict[str, str], limit: str | None) -> str | None:
    return link("/sessions", kept, offset=offset, limit=limit) if found.rows and offset < found.total else None


def _row(row: Row, place: Place) -> Json:
    started, now = units.moment(row.started), place.now()
    return {
        "row": row,
        "title": row.title or "(no title)",
        "started": units.ago(started, now) if started else "",
        "started_at": f"{started.astimezone(place.zone):%Y-%m-%d %H:%M}" if started else "",
        "active": units.duration(timedelta(seconds=row.active_seconds)) if row.active_seconds else "",
        "spark": charts.sparkline(row.curve),
        "tools": ", ".join(f"{name or '?'} {count}" for name, count in list((row.tools or {}).items())[:8]),
        "requests": [(url, _request_name(url)) for url in row.pull_requests if url.startswith("https://")],
    }


def _request_name(url: str) -> str:
    """Return what a pull request is called: its number, if its address ends with one."""
    last = url.rstrip("/").rpartition("/")[2]
    return f"#{last}" if last.isdigit() else "PR"


def _column(name: str, words: str, look: str, wanted: Wanted, kept: dict[str, str]) -> Json:
    is_sorted = wanted.sort == name
    turned = None if not is_sorted or wanted.reverse else 1
    upwards = (name in WORDS) != wanted.reverse
    return {
        "words": words,
        "look": look,
        "href": link("/sessions", kept, sort=name, reverse=turned),
        "order": ("ascending" if upwards else "descending") if is_sorted else None,
    }


def _chip(name: str, count: int, wanted: Wanted, kept: dict[str, str]) -> Json:
    has = wanted.filters.has
    others = [one for one in has if one != name] if name in has else [*has, name]
    return {
        "name": name,
        "count": count,
        "on": name in has,
        "href": link("/sessions", kept, has=",".join(others) or None),
    }


def _menu(name: str, values: list[Value], chosen: str) -> Json:
    listed: list[tuple[str, int | None]] = [(one.value, one.sessions) for one in values]
    if chosen and chosen not in [value for value, _ in listed]:
        listed.insert(0, (chosen, None))
    return {"name": name, "values": listed, "chosen": chosen}


def _hidden(hidden: dict[str, int]) -> str:
    """Say what is left out: `3 hidden: 2 empty, 1 warm-up`."""
    if not hidden:
        return ""
    reasons: list[Any] = [f"{count:,} {reason}" for reason, count in hidden.items()]
    return f"{sum(hidden.values()):,} hidden: {', '.join(reasons)}"


routes = twins("/sessions", sessions)
