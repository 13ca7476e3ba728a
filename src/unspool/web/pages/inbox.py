"""The inbox, the first page: what needs the user, what works, what has finished since the last look, what failed today.

Rules
  1. Sessions that nobody waits for are not on it: those that were seen and have ended, and those of other days. The
     list of sessions has them.
  2. A session that asks shows the whole question, with its options, or the whole call that waits for permission.
  3. Commands to copy are quoted for a shell (`display/shell.py`); nothing is run from here.
  4. The stream sends the page's rows when they have changed, and a comment every few seconds, so that a page knows
     whether its server is still there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from unspool.display import resume_command
from unspool.errors import UsageError
from unspool.graph.context import context_window
from unspool.live import find_terminal
from unspool.live.state import (
    ActivityKind,
    BoardGroup,
    BoardRow,
    describe_request,
    describe_verdict,
    format_elapsed,
    row_to_json,
)
from unspool.other_agents import find_program
from unspool.paths import config_folder
from unspool.store import IN_FOLDER, StoreAccess, folder_parameters
from unspool.store.catalog import SessionHeading, read_headings
from unspool.store.search import FailureKind, SearchFilters
from unspool.web.pages.board import SIGNS
from unspool.web.serving.forms import allow_form_origin, read_form
from unspool.web.serving.responses import (
    JSON_SUFFIX,
    Json,
    json_response,
    link,
    page_routes,
    render_template,
    respond,
    session_link,
)
from unspool.web.serving.seen import SeenSessions
from unspool.web.serving.services import WebServices, services_of
from unspool.web.serving.sse import HEARTBEAT_SECONDS, ServerEvent, resume_position, stream_events

LOOK_BACK: Final = timedelta(days=1)
"""How far the inbox looks back: the board reads no further."""
_MAX_ROWS: Final = 60
"""Rows of a section; how many there are is said."""
_MAX_KINDS: Final = 12
_MAX_PLACES: Final = 8
"""Sessions that are linked for a kind of failure."""
_GAUGE_PIXELS: Final = 60
_DEFAULT_LIMIT: Final = 200_000
"""Tokens that fill the gauge of an unknown model."""
_MAX_ICON: Final = 99
_TIMED: Final = (ActivityKind.RUNNING, ActivityKind.BACKGROUND)
_WORKING: Final = (BoardGroup.WORKING, BoardGroup.BACKGROUND)
_SECTIONS: Final = {
    "needs_you": "Needs you",
    "working": "Working",
    "finished": "Finished since you last looked",
    "waiting": "Waiting for your next prompt",
}
# Grouped by response first: two config folders may have copies of one, and each counts it.
_COSTS_TODAY: Final = f"""
SELECT session_id, sum(cost) FROM (
  SELECT a.session_id, max(a.cost_micros) AS cost FROM answers a
  WHERE a.counted = 1 AND a.time >= :since AND a.source_id IN (
    SELECT id FROM sources WHERE {IN_FOLDER} AND (session_id IN (SELECT value FROM json_each(:ids))
      OR id IN (SELECT source_id FROM agents WHERE session_id IN (SELECT value FROM json_each(:ids)))))
  GROUP BY a.session_id, a.id)
GROUP BY session_id
"""
_ICON: Final = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">\
<circle cx="13" cy="16" r="9" fill="none" stroke="#4a78b8" stroke-width="4"/><path d="M13 25h17" stroke="#4a78b8" \
stroke-width="4"/><circle cx="21" cy="11" r="11" fill="#b3352b"/><text x="21" y="16.5" font-family="sans-serif" \
font-size="{size}" font-weight="700" text-anchor="middle" fill="#fff">{words}</text></svg>"""


class InboxState(NamedTuple):
    """The inbox at one time."""

    data: Json
    sections: list[Json]
    """What the page shows of it."""
    failures: list[Json]
    notices: list[Json]
    """The notifications of the sessions that need the user."""


def show_inbox(request: Request) -> Response:
    """Show the inbox."""
    state = read_inbox(request)
    return allow_form_origin(
        respond(request, "inbox.html", state.data, sections=state.sections, failures=state.failures)
    )


def stream_inbox(request: Request) -> Response:
    """Send the inbox whenever it has changed."""
    return stream_events(_inbox_events(request, resume_position(request)), services_of(request).streams)


async def mark_seen(request: Request) -> Response:
    """Note that all finished sessions, or one, were seen; lead a browser back to the inbox."""
    services = services_of(request)
    fields = await read_form(request, 10)
    sessions, (until, *_) = fields.get("session", []), fields.get("until", [""])
    if not (until.isascii() and until.isdigit() and len(until) <= 15):
        raise UsageError("`until` must be a time in milliseconds")
    if sessions:
        await to_thread.run_sync(services.seen.mark, sessions, int(until))
    else:
        await to_thread.run_sync(services.seen.mark_all, int(until))
    services.watcher.changes.notify()
    if request.headers.get("x-unspool"):  # a script of the page, which hears of the change by its stream
        return json_response({"seen_until": int(until)})
    return RedirectResponse("/", 303)


async def show_icon(request: Request) -> Response:
    """Return an icon with the number of sessions that need the user."""
    count = min(request.path_params["count"], _MAX_ICON)
    icon = _ICON.format(words=count, size=17 if count < 10 else 14)
    return Response(icon, media_type="image/svg+xml", headers={"cache-control": "private, max-age=86400"})


async def _inbox_events(request: Request, seen: str) -> AsyncIterator[ServerEvent | None]:
    changes = services_of(request).watcher.changes
    while True:
        number = changes.number
        event = await to_thread.run_sync(_next_event, request, seen)
        seen = event.position if event else seen
        yield event
        await changes.wait(number, HEARTBEAT_SECONDS)


def _next_event(request: Request, seen: str) -> ServerEvent | None:
    """Return the inbox, if it is not the one that was seen."""
    state = read_inbox(request)
    position = state.data["position"]
    if position == seen:
        return None
    html = render_template(
        request, "inbox_sections.html", data=state.data, sections=state.sections, failures=state.failures
    )
    return ServerEvent("inbox", {"html": html, "notices": state.notices, "mode": state.data["mode"]}, position)


def read_inbox(request: Request) -> InboxState:
    """Return the inbox as it is now."""
    services = services_of(request)
    watcher, now = services.watcher, services.site.now()
    seen = services.seen.read()
    by_section = _sort_rows(watcher.board.rows(now), seen, now)
    midnight = datetime.combine(now.date(), time.min, now.tzinfo)
    since = int(midnight.timestamp() * 1000)
    with services.site.open() as access:
        costs = _read_costs(access, {row.session_id for rows in by_section.values() for row in rows}, since)
        groups = services.failures.read(access, SearchFilters(since=since)).kinds
        headings = read_headings(
            access.database, access.roots, (one.session for group in groups for one in group.sessions)
        )
    items = {
        name: [_describe_item(services, row, now, costs) for row in rows[:_MAX_ROWS]]
        for name, rows in by_section.items()
    }
    failures = [_describe_failures(group, headings, now) for group in groups[:_MAX_KINDS]]
    data: Json = {
        **{name: [item["data"] for item in items[name]] for name in items},
        "counts": {name: len(rows) for name, rows in by_section.items()},
        "failures": [failure["data"] for failure in failures],
        "failure_kinds": len(groups),
        "failures_since": since,
        "needing": len(by_section["needs_you"]),
        "seen_until": seen.seen_until or None,
        "now": int(now.timestamp() * 1000),
        "mode": watcher.mode,
        "unread": watcher.board.unread,
        "complaint": services.refresher.error,
    }
    data["position"] = _position(by_section, costs, groups, watcher.mode)
    sections = [
        {"name": name, "title": title, "items": items[name], "count": len(by_section[name])}
        for name, title in _SECTIONS.items()
    ]
    notices = [{"key": item["key"], "title": item["title"], "words": item["words"], "href": item["href"]}
               for item in items["needs_you"]]  # fmt: skip
    return InboxState(data, sections, failures, notices)


def _sort_rows(rows: list[BoardRow], seen: SeenSessions, now: datetime) -> dict[str, list[BoardRow]]:
    """Return the rows of each section."""
    found: dict[str, list[BoardRow]] = {name: [] for name in _SECTIONS}
    for row in rows:
        if row.group is BoardGroup.NEEDS_YOU:
            found["needs_you"].append(row)
        elif row.group in _WORKING:
            found["working"].append(row)
        elif row.agent_id is None and row.path and row.last and now - row.last <= LOOK_BACK:
            if not seen.has_seen(row.session_id, _milliseconds(row.last)):
                found["finished"].append(row)
            elif row.group is BoardGroup.WAITING:
                found["waiting"].append(row)
        elif row.group is BoardGroup.WAITING and row.agent_id is None:
            found["waiting"].append(row)
    found["finished"].sort(key=lambda row: -_milliseconds(row.last))
    return found


def _describe_item(services: WebServices, row: BoardRow, now: datetime, costs: dict[str, int]) -> Json:
    """Return what is known of a session, and what its row shows."""
    words, kind = describe_verdict(row.verdict, now), row.verdict.activity.kind
    limit = context_window(row.model) or max(_DEFAULT_LIMIT, row.context_tokens or 0)
    share = min(1.0, (row.context_tokens or 0) / limit)
    since = row.last if row.group in (BoardGroup.IDLE, BoardGroup.ENDED) else row.verdict.since
    elapsed = format_elapsed(since, now)
    request = describe_request(row.asking) if row.asking else None
    cost, href = costs.get(row.session_id, 0), session_link(row.session_id, agent=row.agent_id)
    terminal = find_terminal(row.pid) if row.is_alive and row.pid is not None and row.agent_id is None else None
    is_other = find_program(row.path) is not None  # Claude Code cannot resume another agent's session
    resume = "" if is_other else resume_command(row.session_id, row.cwd, named_config(services, row.path))
    go = (terminal.command if terminal else None) or resume
    data = {
        **row_to_json(row, now),
        "costToday": cost,
        "asks": msgspec.to_builtins(request) if request else None,
        "terminal": terminal.words if terminal else None,
        "goThere": go,
        "resume": resume,
        "href": href,
    }
    return {
        "data": data,
        "row": row,
        "key": f"{row.session_id}/{row.agent_id}" if row.agent_id else row.session_id,
        "href": href,
        "share": link(f"{href.partition('?')[0]}/share"),
        "title": row.title or row.goal or "(waiting for the first prompt)",
        "sign": SIGNS[kind],
        "asks": request,
        "error": row.verdict.activity.message if kind is ActivityKind.ERROR else "",
        "terminal": terminal.words if terminal else "",
        "go": go,
        "resume": resume,
        # The page counts the seconds itself, beside the words.
        "words": words.replace(f" {elapsed}", "", 1) if kind in _TIMED else words,
        "output": " ".join(row.recent_output.split())[:300],
        "since": since.timestamp() if since else "",
        "elapsed": elapsed,
        "cost": cost,
        "gauge": round(_GAUGE_PIXELS * share),
        "full": "high" if share > 0.85 else "middle" if share > 0.6 else "low",
        "until": _milliseconds(row.last),
    }


def named_config(services: WebServices, path: str) -> str | None:
    """Return the config folder that Claude Code has to be told; None if it is the one it uses by itself."""
    usual = config_folder(None, {**os.environ, "CLAUDE_CONFIG_DIR": ""})
    folders = services.watcher.board.folders
    own = next((one for one in folders if path.startswith(f"{one.config}{os.sep}")), None)
    if own is None or own.config == usual or own.config == _resolved(usual):
        return None
    # A project or a file was named, which is in no config folder that Claude Code could use.
    return str(own.config) if path.startswith(f"{own.config}{os.sep}projects{os.sep}") else None


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


def _describe_failures(group: FailureKind, headings: Mapping[str, SessionHeading], now: datetime) -> Json:
    """Return a kind of failure, how often it occurred, and where."""
    places = []
    for session in group.sessions:
        newest, id = session.last, session.session or ""
        step = f"{newest.agent}/{newest.offset}" if newest.agent else newest.offset
        heading = headings.get(id)
        places.append(
            {
                "session_id": id,
                "title": (heading.title if heading else "") or id,
                "project": (heading.project if heading else "") or "",
                "count": session.failures,
                "href": session_link(id, step=step, agent=newest.agent),
            }
        )
    last = datetime.fromtimestamp((group.last.time or 0) / 1000, now.tzinfo)
    data = {
        "kind": group.kind,
        "example": f"{group.tool or 'API'}: {group.words}",
        "count": group.failures,
        "sessions": len(places),
        "last": group.last.time,
        "places": places,
    }
    return {
        "data": data,
        "places": places[:_MAX_PLACES],
        "since": last.timestamp(),
        "elapsed": format_elapsed(last, now),
    }


def _read_costs(access: StoreAccess, ids: Iterable[str], since: int) -> dict[str, int]:
    """Return what each session has cost since a time, its agents with it."""
    if access.database is None:
        return {}
    values = {**folder_parameters(access.roots), "since": since, "ids": json.dumps(sorted(ids))}
    return dict(access.database.execute(_COSTS_TODAY, values).fetchall())


def _position(sections: dict[str, list[BoardRow]], costs: dict[str, int], groups: list[FailureKind], mode: str) -> str:
    """Return a name for the state of the inbox: the same rows have the same. Seconds that pass do not change it."""
    # The rows themselves, not what they show: elapsed seconds would change it without news.
    state = repr((sections, sorted(costs.items()), groups, mode))
    return hashlib.blake2b(state.encode(errors="replace"), digest_size=12).hexdigest()


def _milliseconds(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1000) if moment else 0


routes = [
    *page_routes("/", show_inbox),
    Route(f"/inbox{JSON_SUFFIX}", show_inbox),
    Route("/inbox/seen", mark_seen, methods=["POST"]),
    Route("/icon/{count:int}.svg", show_icon),
    Route("/events", stream_inbox),
]
