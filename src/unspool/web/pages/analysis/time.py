"""The time of a session: a strip of its turns, and a waterfall of one turn: model, tools, agents, waiting for a person.

Rules
  1. The strip is made from the index, without reading a turn. One part of one turn is read for the waterfall.
  2. The waterfall is a table: every bar has its row, with times in words and a link to its step.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from unspool.errors import NotFound
from unspool.format import local_time, milliseconds
from unspool.page import PageView
from unspool.page.analysis import KINDS_OF_TIME, StripTurn, TimeSpan, build_strip, sum_times
from unspool.page.html import time_charts
from unspool.page.readers import read_turn_spans
from unspool.web.serving.responses import Json, link, page_routes, parse_number, respond, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site

_PAGE_TURNS: Final = 50
_NAMES: Final = {
    "person": "waiting for you",
    "agent": "agents",
    "tool": "tools",
    "model": "model",
    "other": "other",
}


def show_time(request: Request) -> Response:
    """Show what the time of a session and of one of its turns went into."""
    query, site = request.query_params, services_of(request).site
    id, agent = str(request.path_params["id"]), query.get("agent") or None
    with services_of(request).open_sessions.open(id, agent) as view:
        turns = _turns(view)
        known = {turn.number: turn for turn in turns}
        longest = max(turns, key=lambda turn: turn.end - turn.start, default=None)
        number = parse_number(query, "turn", longest.number if longest else 0, example=1)
        part = parse_number(query, "part", 0, example=1)
        if query.get("turn") and not 0 <= number < len(view.index.turns):
            raise NotFound(f"no turn matches `{number}`", hint=f"the session has {len(view.index.turns) - 1:,} turns")
        parts = len(view.index.turns[number].chunks) if turns else 0
        if part >= max(parts, 1):
            raise NotFound(f"turn {number} has no part `{part}`", hint=f"it has {parts:,}")
        spans = read_turn_spans(view, number, part) if turns else []
        offset = parse_number(
            query,
            "offset",
            (turns.index(known[number]) // _PAGE_TURNS) * _PAGE_TURNS if number in known else 0,
            example=_PAGE_TURNS,
        )
        listed = turns[offset : offset + _PAGE_TURNS]
        prompts = {turn.number: view.index.turns[turn.number].prompt[:200] for turn in listed}
        head = view.outline().head
        prompt = view.index.turns[number].prompt[:400] if turns else ""
    start, end = _range(spans, known.get(number) if part == 0 and parts == 1 else None)
    strip = build_strip(turns)
    data: Json = {
        "session": id,
        "agent": agent,
        "title": head.title or id,
        "wall_seconds": head.wall,
        "active_seconds": head.active,
        "strip": [
            {"kind": one.kind, "first": one.first, "last": one.last, "milliseconds": one.milliseconds} for one in strip
        ],
        "turns": [
            {"turn": turn.number, "milliseconds": turn.end - turn.start, "waited": _waited(turns, offset + place),
             "prompt": prompts[turn.number], "start": turn.start}
            for place, turn in enumerate(listed)
        ],
        "turns_total": len(turns),
        "offset": offset,
        "turn": number,
        "part": part,
        "parts": parts,
        "prompt": prompt,
        "start": start,
        "milliseconds": end - start,
        "sums": sum_times(spans, start, end),
        "spans": [_span_data(span) for span in spans],
    }  # fmt: skip
    base = f"/session/{quote(id, safe='')}/time"

    def href(turn: int) -> str:
        return link(base, turn=turn, agent=agent) + "#turn"

    longest_turn = max((turn["milliseconds"] for turn in data["turns"]), default=0)
    look = {
        "strip": time_charts.render_strip(strip, href, number),
        "shares": time_charts.render_shares([(kind, data["sums"][kind]) for kind in KINDS_OF_TIME], end - start),
        "sums": [
            (kind, _NAMES[kind], time_charts.format_milliseconds(data["sums"][kind]))
            for kind in KINDS_OF_TIME
            if data["sums"][kind]
        ],
        "took": time_charts.format_milliseconds(end - start),
        "began": _clock(start, site),
        "spans": [_span_view(id, span, start, end, site) for span in data["spans"]],
        "turns": [
            {
                **turn,
                "href": href(turn["turn"]),
                "took": time_charts.format_milliseconds(turn["milliseconds"]),
                "waiting": time_charts.format_milliseconds(turn["waited"]) if turn["waited"] else "",
                "when": site.format_time(turn["start"]),
                "bar": time_charts.render_span_bar("turn", 0, turn["milliseconds"], longest_turn),
            }
            for turn in data["turns"]
        ],
        "session_href": session_link(id, turn=number) if number else session_link(id),
        "previous_part": link(base, turn=number, part=part - 1, agent=agent) + "#turn" if part else None,
        "next_part": link(base, turn=number, part=part + 1, agent=agent) + "#turn" if part + 1 < parts else None,
        "previous": link(base, turn=number, offset=max(0, offset - _PAGE_TURNS), agent=agent) if offset else None,
        "next": link(base, turn=number, offset=offset + _PAGE_TURNS, agent=agent)
        if offset + _PAGE_TURNS < len(turns)
        else None,
    }
    return respond(request, "time.html", data, view=look)


def _turns(view: PageView) -> list[StripTurn]:
    """Return the turns whose times are known; one ends no earlier than it begins."""
    turns = []
    for number, turn in enumerate(view.index.turns):
        start, end = milliseconds(turn.time or turn.last), milliseconds(turn.last)
        if start is not None and (number or view.index.has_opening):
            turns.append(StripTurn(number, start, max(start, end or start)))
    return turns


def _waited(turns: list[StripTurn], place: int) -> int:
    """Return how long a prompt was waited for after the turn before."""
    return max(0, turns[place].start - turns[place - 1].end) if place else 0


def _range(spans: list[TimeSpan], turn: StripTurn | None) -> tuple[int, int]:
    """Return from when to when a waterfall is: that of the turn, else of what is in it."""
    starts = [span.start for span in spans] + ([turn.start] if turn else [])
    ends = [span.end for span in spans] + ([turn.end] if turn else [])
    return min(starts, default=0), max(ends, default=0)


def _span_data(span: TimeSpan) -> Json:
    return {
        "kind": span.kind,
        "name": span.name,
        "target": span.target,
        "step": span.key,
        "start": span.start,
        "milliseconds": span.length,
        "words": span.words,
        "is_open": span.is_open,
        "agent": span.agent,
    }


def _span_view(id: str, span: Json, start: int, end: int, site: Site) -> Json:
    took = time_charts.format_milliseconds(span["milliseconds"])
    began = time_charts.format_milliseconds(span["start"] - start)
    what = _NAMES[span["kind"]] if span["kind"] == "person" else span["kind"]
    words = f"{what}: {span['name']} {span['target'][:80]}, {took}, {began} after the start"
    return {
        **span,
        "href": session_link(id, step=span["step"]),
        "bar": time_charts.render_span_bar(span["kind"], span["start"] - start, span["milliseconds"], end - start),
        "took": f"{took} so far" if span["is_open"] else took,
        "began": _clock(span["start"], site),
        "after": began,
        "title": words,
        "what": what,
        "agent_href": session_link(id, agent=span["agent"]) if span["agent"] else None,
    }


def _clock(time: int, site: Site) -> str:
    moment = local_time(time or None, site.zone)
    return f"{moment:%H:%M:%S}" if moment else ""


routes = page_routes("/session/{id}/time", show_time)
