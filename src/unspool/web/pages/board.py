"""The live board: sessions that need the user, that work, that wait or are idle, and the stream that updates it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Collection, Container, Iterable
from datetime import datetime, time
from typing import Final, NamedTuple

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.format import parse_local_time
from unspool.graph.context import context_window
from unspool.live.state import (
    Activity,
    ActivityKind,
    BoardGroup,
    BoardRow,
    SessionStatus,
    Verdict,
    describe_verdict,
    format_elapsed,
    row_to_json,
)
from unspool.store import IN_FOLDER, StoreAccess, folder_parameters
from unspool.web.serving.responses import Json, page_routes, render_template, respond, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.sse import HEARTBEAT_SECONDS, ServerEvent, resume_position, stream_events

_MAX_ROWS: Final = {BoardGroup.IDLE: 20, BoardGroup.ENDED: 20}
"""Rows of a group that are shown: the list of sessions has all of them."""
_GAUGE_PIXELS: Final = 60
_DEFAULT_LIMIT: Final = 200_000
"""Tokens that fill the gauge of an unknown model."""
_SIGNS: Final = {
    ActivityKind.PERMISSION: "?", ActivityKind.QUESTION: "?", ActivityKind.ERROR: "✗", ActivityKind.RUNNING: "▸",
    ActivityKind.THINKING: "▸", ActivityKind.AGENTS: "▸", ActivityKind.RETRYING: "↻", ActivityKind.COMPACTING: "▸",
    ActivityKind.BACKGROUND: "▸", ActivityKind.WAITING: "●", ActivityKind.INTERRUPTED: "■", ActivityKind.ENDED: "○",
    ActivityKind.IDLE: "·",
}  # fmt: skip
_TIMED: Final = (ActivityKind.RUNNING, ActivityKind.BACKGROUND)
_LAST_SESSIONS: Final = f"""
SELECT s.session_id, path, s.title, s.project, s.cwd, s.branch, s.models, s.last, s.first_prompt, s.context_tokens,
  sources.project, s.started
FROM sessions s JOIN sources ON sources.id = s.source_id
WHERE {IN_FOLDER} AND s.hidden IS NULL AND s.last IS NOT NULL
ORDER BY s.last DESC LIMIT :most
"""
_COSTS_TODAY: Final = """
SELECT a.session_id, sum(a.cost_micros) FROM answers a
WHERE a.counted = 1 AND a.time >= :since AND a.source_id IN (
  SELECT id FROM sources WHERE session_id IN (SELECT value FROM json_each(:ids))
  UNION SELECT source_id FROM agents WHERE session_id IN (SELECT value FROM json_each(:ids)))
GROUP BY a.session_id
"""


class _BoardState(NamedTuple):
    """The board at one time."""

    data: Json
    groups: list[Json]
    """The same as the page shows it."""
    needing: list[Json]


def show_board(request: Request) -> Response:
    """Show the board."""
    state = _read_board(request)
    return respond(request, "board.html", state.data, shown=state.groups)


def stream_board(request: Request) -> Response:
    """Send the board whenever it has changed."""
    return stream_events(_board_events(request, resume_position(request)), services_of(request).streams)


async def _board_events(request: Request, seen: str) -> AsyncIterator[ServerEvent | None]:
    changes = services_of(request).watcher.changes
    while True:
        number = changes.number
        event = await to_thread.run_sync(_next_event, request, seen)
        seen = event.position if event else seen
        yield event
        await changes.wait(number, HEARTBEAT_SECONDS)


def _next_event(request: Request, seen: str) -> ServerEvent | None:
    """Return the board's rows, if they are not those that were seen."""
    state = _read_board(request)
    position = state.data["position"]
    if position == seen:
        return None
    html = render_template(request, "board_rows.html", shown=state.groups)
    return ServerEvent("board", {"html": html, "needing": state.needing, "mode": state.data["mode"]}, position)


def _read_board(request: Request) -> _BoardState:
    services = services_of(request)
    watcher, now = services.watcher, services.site.now()
    rows = watcher.board.rows(now)
    with services.site.open() as access:
        missing = max(_MAX_ROWS[BoardGroup.IDLE] - sum(row.group is BoardGroup.IDLE for row in rows), 0)
        # As many more as the board has rows: those that it has already are left out.
        rows += _list_idle(access, {row.session_id for row in rows}, missing + len(rows))[:missing]
        costs = _costs_today(access, {row.session_id for row in rows}, now)
    groups, shown_groups = [], []
    for group in BoardGroup:
        own = [row for row in rows if row.group is group]
        if shown := own[: _MAX_ROWS.get(group)]:
            about = {"name": group.value, "more": len(own) - len(shown)}
            plain = [{**row_to_json(row, now), "costToday": costs.get(row.session_id, 0)} for row in shown]
            groups.append({**about, "rows": plain})
            looks = [{**_row_look(row, now), "cost": costs.get(row.session_id, 0)} for row in shown]
            shown_groups.append({**about, "rows": looks})
    needing = [_notice(row, now) for row in rows if row.group is BoardGroup.NEEDS_YOU]
    data = {
        "groups": groups,
        "needing": len(needing),
        "mode": watcher.mode,
        "unread": watcher.board.unread,
        "complaint": services.refresher.error,
        "position": _position(rows, costs, watcher.mode),
    }
    return _BoardState(data, shown_groups, needing)


def _list_idle(access: StoreAccess, known: Container[str], most: int) -> list[BoardRow]:
    """Return the sessions that were written last, without those that are known. None of their files is read."""
    if access.database is None:
        return []
    rows = []
    for record in access.database.execute(_LAST_SESSIONS, {**folder_parameters(access.roots), "most": most}):
        id, path, title, project, cwd, branch, models, last, prompt, context, key, started = record
        if id not in known:
            row = BoardRow(
                session_id=id,
                path=path,
                title=title,
                project=project,
                cwd=cwd,
                branch=branch,
                model=next(iter(json.loads(models or "[]")), None),
                status=SessionStatus.IDLE,
                verdict=Verdict(Activity(ActivityKind.IDLE), since=parse_local_time(last)),
                last=parse_local_time(last),
                goal=(prompt or "")[:200],
                context_tokens=context,
                project_hash=key,
                group=BoardGroup.IDLE,
                started=parse_local_time(started),
            )
            rows.append(row)
    return rows


def _costs_today(access: StoreAccess, ids: Iterable[str], now: datetime) -> dict[str, int]:
    """Return what each session has cost since midnight, its agents with it."""
    if access.database is None:
        return {}
    midnight = datetime.combine(now.date(), time.min, now.tzinfo)
    values = {"since": int(midnight.timestamp() * 1000), "ids": json.dumps(sorted(ids))}
    return dict(access.database.execute(_COSTS_TODAY, values).fetchall())


def _position(rows: list[BoardRow], costs: dict[str, int], mode: str) -> str:
    """Return a name for the state of the board: the same rows have the same. Seconds that pass do not change it."""
    # The rows themselves, not what they show: elapsed seconds would change it without news.
    state = repr((rows, sorted(costs.items()), mode))
    return hashlib.blake2b(state.encode(errors="replace"), digest_size=12).hexdigest()


def _notice(row: BoardRow, now: datetime) -> Json:
    """Return the notification of a session that needs the user."""
    words = describe_verdict(row.verdict, now)
    return {"key": _key(row), "title": row.title or row.session_id, "words": words, "href": _href(row)}


def _row_look(row: BoardRow, now: datetime) -> Json:
    """Return what a row shows."""
    words, kind = describe_verdict(row.verdict, now), row.verdict.activity.kind
    limit = context_window(row.model) or max(_DEFAULT_LIMIT, row.context_tokens or 0)
    share = min(1.0, (row.context_tokens or 0) / limit)
    since = row.verdict.since if row.group is not BoardGroup.IDLE else row.last
    elapsed = format_elapsed(since, now)
    return {
        "row": row,
        "key": _key(row),
        "href": _href(row),
        "title": row.title or row.goal or "(waiting for the first prompt)",
        "sign": _SIGNS[kind],
        # The page counts the seconds itself, beside the words.
        "words": words.replace(f" {elapsed}", "", 1) if kind in _TIMED else words,
        "since": since.timestamp() if since else "",
        "elapsed": elapsed,
        "gauge": round(_GAUGE_PIXELS * share),
        "full": "high" if share > 0.85 else "middle" if share > 0.6 else "low",
        "checked": row.last.timestamp() if row.last else "",
        "age": format_elapsed(row.last, now),
    }


def live_signs(request: Request, ids: Collection[str]) -> dict[str, Json]:
    """Return sign, status and activity of sessions: for the list of sessions. What is not on the board is idle."""
    services = services_of(request)
    now = services.site.now()
    idle = _sign(SessionStatus.IDLE, Verdict(Activity(ActivityKind.IDLE)), now)
    rows = services.watcher.board.rows(now, ids)
    # Of copies of a session the first counts, as on the board.
    on_board = {row.session_id: _sign(row.status, row.verdict, now) for row in reversed(rows) if row.agent_id is None}
    return {id: on_board.get(id, idle) for id in ids}


def _sign(status: SessionStatus, verdict: Verdict, now: datetime) -> Json:
    kind = verdict.activity.kind
    return {"sign": _SIGNS[kind], "status": status.value, "kind": kind.value, "words": describe_verdict(verdict, now)}


def _key(row: BoardRow) -> str:
    return f"{row.session_id}/{row.agent_id}" if row.agent_id else row.session_id


def _href(row: BoardRow) -> str:
    return session_link(row.session_id, agent=row.agent_id)


routes = [*page_routes("/", show_board), Route("/events", stream_board)]
