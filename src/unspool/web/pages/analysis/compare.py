"""The comparison page: two sessions or branches side by side, aligned by prompts and tool calls.

Rules
  1. The figures are those of `unspool compare`; requests come from the same ledger as the usage page.
  2. Each turn and each call leads to its step. Each figure leads to the page with what is behind it.
  3. Both sessions are read whole: those that are too large are refused, with the command that compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from unspool.display import units
from unspool.errors import NotFound, TooLarge
from unspool.home import Session
from unspool.page import PageView
from unspool.page.analysis import (
    FIGURES,
    ComparedSession,
    describe_outside_turns,
    format_figure,
    list_differences,
    session_data,
    short_names,
    turns_data,
)
from unspool.page.readers import read_compared_session, read_paid_requests
from unspool.store import PriceLookup
from unspool.web.serving.responses import Json, page_routes, respond, session_link
from unspool.web.serving.services import WebServices, services_of

_BRANCH: Final = re.compile(r"(.+)#(\d{1,6})", re.DOTALL)
_MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_TURNS: Final = 200
"""Pairs of turns that the page shows; the JSON has all."""
_MAX_CALLS: Final = 100
_BEHIND: Final = {
    **dict.fromkeys(["requests", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"], "/cost"),
    "cost_micros": "/cost",
    **dict.fromkeys(["files_changed", "lines_added", "lines_removed"], "/review"),
    **dict.fromkeys(["wall_seconds", "active_seconds"], "/time"),
}
"""The page of a session that shows what is behind a figure; others lead to the session."""


def show_comparison(request: Request) -> Response:
    """Show two sessions side by side; without two, a form that asks for them."""
    names = [(request.query_params.get(side) or "").strip() for side in ("a", "b")]
    if not all(names):
        empty: Json = {"a": None, "b": None, "names": names}
        return respond(request, "compare.html", empty, view=None)
    a, b = (_read_side(request, name) for name in names)
    data: Json = {"names": names, "a": session_data(a), "b": session_data(b), **list_differences(a, b)}
    data["turns"] = turns_data(a, b)
    return respond(request, "compare.html", data, view=_page_view(data, a, b))


def _read_side(request: Request, name: str) -> ComparedSession:
    services = services_of(request)
    match = _BRANCH.fullmatch(name)
    with _open_named(services, match[1] if match else name) as view:
        opened = view.session
    # Of its own: a session remembers all of its lines, and the page's must not.
    source = opened.source
    session = Session(source, opened.home, opened.own_path if opened.is_missing else None)
    if source.size + sum(agent.size for agent in session.agent_sources) > _MAX_BYTES:
        raise TooLarge("this session is too large to compare on the page", hint="run `unspool compare` in a terminal")
    with services.site.open() as access:
        requests = read_paid_requests(session, access.ledger, PriceLookup(access.preferences.prices))
    return read_compared_session(session, requests, int(match[2]) if match else None)


@contextmanager
def _open_named(services: WebServices, name: str) -> Iterator[PageView]:
    """Open the session with an id, the beginning of one, or a title: what people type into the form."""
    with ExitStack() as stack:
        try:
            view = stack.enter_context(services.open_sessions.open(name))
        except NotFound:
            with services.site.open() as access:
                id = access.home.session(name).id
            view = stack.enter_context(services.open_sessions.open(id))
        yield view


def _page_view(data: Json, a: ComparedSession, b: ComparedSession) -> Json:
    sides = {"a": a, "b": b}
    return {
        "heads": [
            {
                "name": name,
                "title": side.title or side.id,
                "href": session_link(side.id),
            }
            for name, side in zip(short_names(a, b), sides.values(), strict=True)
        ],
        "figures": [
            {
                "name": FIGURES[one["figure"]],
                "cells": [
                    (
                        format_figure(one["figure"], one[key], side.figures["unpriced_tokens"]),
                        _behind(side.id, one["figure"]),
                    )
                    for key, side in sides.items()
                ],
                "difference": _difference(one),
            }
            for one in data["figures"]
        ],
        "turns": [_turn_view(pair, sides) for pair in data["turns"][:_MAX_TURNS]],
        "outside": [describe_outside_turns(side) for side in sides.values()],
        "more": max(len(data["turns"]) - _MAX_TURNS, 0),
    }


def _behind(id: str, figure: str) -> str:
    page = _BEHIND.get(figure, "")
    return f"/session/{quote(id, safe='')}{page}"


def _difference(figure: Json) -> str:
    if not figure["difference"]:
        return ""
    words = format_figure(figure["figure"], abs(figure["difference"]))
    return f"{'+' if figure['difference'] > 0 else '−'}{words}"


def _turn_view(pair: Json, sides: dict[str, ComparedSession]) -> Json:
    calls = pair["calls"][:_MAX_CALLS]
    return {
        **pair,
        "cells": [
            {
                **pair[key],
                "href": session_link(side.id, turn=pair[key]["turn"]) if side.branch is None else session_link(side.id),
                "cost": units.cost(pair[key]["cost_micros"], pair[key]["unpriced_tokens"]),
                "took": format_figure("_seconds", pair[key]["seconds"]),
            }
            if pair[key]
            else None
            for key, side in sides.items()
        ],
        "calls": [
            {"same": one["same"], "cells": [_call_view(one[key], side) for key, side in sides.items()]} for one in calls
        ],
        "more_calls": max(len(pair["calls"]) - _MAX_CALLS, 0),
    }


def _call_view(call: dict[str, Any] | None, side: ComparedSession) -> Json | None:
    return {**call, "href": session_link(side.id, step=call["step"])} if call else None


routes = page_routes("/compare", show_comparison)
