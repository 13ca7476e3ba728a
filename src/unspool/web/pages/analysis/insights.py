"""The insights page: where the money and the time of sessions go, and what would have saved some.

Rules
  1. The figures are those of `unspool insights`. Each section leads to its SQL query, each row to the lines that weigh
     most in it.
  2. A suggestion names what it would have saved, how that was computed, and its evidence.
"""

from __future__ import annotations

from typing import Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from unspool.display import short_id
from unspool.errors import UsageError
from unspool.format import parse_time_range
from unspool.insights import SHOWN, InsightScope, build_query
from unspool.insights.analysis import (
    LAYOUT,
    InsightLayout,
    describe_row,
    describe_saving,
    describe_unknown,
    format_value,
)
from unspool.store.catalog import read_headings
from unspool.web.serving.responses import Json, link, page_routes, parse_number, respond, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site
from unspool.web.serving.sql_engine import KeptEngine

_ROWS: Final = 10
_MAX_ROWS: Final = 1000
_MORE_ROWS: Final = 100
_RANGES: Final = (("7 days", "7d"), ("30 days", "30d"), ("90 days", "90d"), ("all time", None))
_FILTERS: Final = ("since", "until", "project", "session")


async def show_insights(request: Request) -> Response:
    """Show the insights of the sessions that the address names."""
    services = services_of(request)
    limit = parse_number(request.query_params, "limit", _ROWS)
    if not 1 <= limit <= _MAX_ROWS:
        raise UsageError(f"invalid limit {limit}", hint=f"pass one from 1 to {_MAX_ROWS:,}")
    filters = {name: request.query_params.get(name, "").strip() or None for name in _FILTERS}
    # As many at once as SQL queries: each has an engine of its own.
    async with services.sql_slots:
        data = await to_thread.run_sync(_read, services.site, services.insights_engine, filters, limit)
    scope = data.pop("scope")
    return respond(request, "insights.html", data, view=_page_view(data, filters, scope, services.site))


def _read(site: Site, kept: KeptEngine, filters: dict[str, str | None], limit: int) -> Json:
    """Return the insights and the titles of the sessions in them."""
    from unspool.insights import read_insights  # with the planner of edits: a server may never be asked for it

    now = site.now()
    since, until = parse_time_range(filters["since"], filters["until"], now, site.zone)
    with site.open() as access, kept.open() as engine:
        session = access.home.session(filters["session"]).id if filters["session"] else None
        scope = InsightScope(since, until, filters["project"], session)
        found = read_insights(engine, access, scope, limit=limit, now=now)
        ids = {row["session_id"] for name in ("contexts", "api_errors") for row in found[name]}
        ids |= {place["session_id"] for one in _all_rows(found) for place in one["places"]}
        headings = read_headings(access.database, access.roots, ids)
        titles = {id: heading.title for id, heading in headings.items() if heading.title}
        return {**filters, "limit": limit, **found, "titles": titles, "scope": scope}


def _all_rows(data: Json) -> list[Json]:
    return [row for name in (*SHOWN, "suggestions") for row in data[name]]


def _page_view(data: Json, filters: dict[str, str | None], scope: InsightScope, site: Site) -> Json:
    kept = {name: value for name, value in filters.items() if value}
    return {
        "ranges": [
            (words, link("/insights", kept, since=since), kept.get("since") == since and not kept.get("until"))
            for words, since in _RANGES
        ],
        "suggestions": [
            {
                **one,
                "action": one["action"].replace("`", ""),
                "computed": one["computed"].replace("`", ""),
                "saving": describe_saving(one["saved"]),
                "lines": [_place_view(place, None, data["titles"], site) for place in one["places"]],
            }
            for one in data["suggestions"]
        ],
        "sections": [
            {
                "name": name,
                "layout": LAYOUT[name],
                "sql": link("/sql", q=build_query(LAYOUT[name].question or name, scope)),
                "rows": [_row_view(name, row, data["titles"], site) for row in data[name]],
                "rest": data["left_out"].get(name, 0),
                "more": link("/insights", kept, limit=_MORE_ROWS) + f"#{name}",
            }
            for name in SHOWN
            if data[name]
        ],
        "unknown": describe_unknown(data["unknown"]),
    }


def _row_view(name: str, row: Json, titles: dict[str, str], site: Site) -> Json:
    layout: InsightLayout = LAYOUT[name]
    named = describe_row(name, row)
    first, *others = layout.columns
    words = format_value(first.form, named[first.field])
    if first.field == "session_id":
        words = titles.get(words, words)
    return {
        "words": words,
        "href": _row_href(first.field, named[first.field]),
        "cells": [(one, format_value(one.form, named[one.field])) for one in others],
        "lines": [_place_view(place, layout, titles, site) for place in row["places"]],
    }


def _row_href(field: str, value: Any) -> str | None:
    """Return the page about what a row is about."""
    if not isinstance(value, str):
        return None
    match field:
        case "session_id":
            return session_link(value)
        case "path":
            return link("/files", {"path": value})
        case "project":
            return link("/insights", project=value)
        case _:
            return None


def _place_view(place: Json, layout: InsightLayout | None, titles: dict[str, str], site: Site) -> Json:
    """Return the link to a line: in words its value, or its time."""
    session, agent, offset = place["session_id"], place["agent_id"], place["offset"]
    step = f"{agent}/{offset}" if agent else offset
    time = (place["time"] or "")[:16].replace("T", " ")
    turn = f"turn {place['turn']}" if place["turn"] else ""
    value = None if layout is None or layout.value is None else place["value"]
    return {
        "href": session_link(session, step=step, agent=agent) if session else None,
        "words": format_value(layout.value, value)
        if layout and layout.value and value is not None
        else f"{short_id(session or '-')} {turn}".rstrip(),
        "about": ", ".join(
            part for part in (titles.get(session or "", session or ""), turn, time and f"{time} UTC") if part
        ),
    }


routes = page_routes("/insights", show_insights)
