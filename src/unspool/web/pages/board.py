"""The live board: who needs you, who works, who waits; and the stream that keeps it up to date.

[merged: resting.py] Sessions that rest, as rows of the board: the store in, rows out. The board itself reads none of their files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Container, Iterable
from datetime import datetime, time
from typing import Final, NamedTuple

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.display.units import moment
from unspool.graph.context.model_rules import window
from unspool.live.board import Detail, Group, Row, Source, Status, plain
from unspool.live.board import Kind as board_Kind
from unspool.live.model import Kind, elapsed, say
from unspool.store.access import Opened
from unspool.store.sync.changes import WITHIN, within
from unspool.web.background import Watching
from unspool.web.responses import Json, page, place_of, rendered, session_link, twins
from unspool.web.sse import PATIENCE, News, position, stream

_LAST = f"""
SELECT s.session_id, path, s.title, s.project, s.cwd, s.branch, s.models, s.last, s.first_prompt, s.context_tokens,
  sources.project, s.started
FROM sessions s JOIN sources ON sources.id = s.source_id
WHERE {WITHIN.replace("path", "sources.path")} AND s.hidden IS NULL AND s.last IS NOT NULL
ORDER BY s.last DESC LIMIT :most
"""


def resting(opened: Opened, known: Container[str], most: int) -> list[Row]:
    """Return the sessions that said something last, but for those that are known already."""
    if opened.database is None:
        return []
    rows = opened.database.execute(_LAST, {**within(opened.root), "most": most})
    return [_row(*row) for row in rows if row[0] not in known]


def _row(
    id: str,
    path: str,
    title: str,
    *about: str | None,
) -> Row:
    project, cwd, branch, models, last, prompt, context, key, started = about
    names = json.loads(models or "[]")
    return Row(
        session_id=id, agent_id=None, path=path, title=title, project=project, cwd=cwd, branch=branch,
        model=names[0] if names else None, status=Status.IDLE, detail=Detail(board_Kind.IDLE), source=Source.TRANSCRIPT,
        since=moment(last), last=moment(last), goal=(prompt or "")[:200], recent_output="", pending=None, tokens_5m=0,
        tokens_1h=0, context_tokens=int(context) if context is not None else None, agents=0, project_hash=key,
        probably=False, group=Group.IDLE, started=moment(started),
    )  # fmt: skip


_FEW: Final = {Group.IDLE: 20, Group.ENDED: 20}
"""How many rows of a group are shown: what rests is on the list of sessions."""
_GAUGE: Final = 60
"""Pixels of a full gauge."""
_LIMIT: Final = 200_000
"""Tokens that fill the gauge of a model nobody has described."""
_SIGNS: Final = {
    Kind.PERMISSION: "?", Kind.QUESTION: "?", Kind.ERROR: "✗", Kind.RUNNING: "▸", Kind.THINKING: "▸", Kind.AGENTS: "▸",
    Kind.RETRYING: "↻", Kind.COMPACTING: "▸", Kind.WAITING: "●", Kind.INTERRUPTED: "■", Kind.ENDED: "○", Kind.IDLE: "·",
}  # fmt: skip
_BASIS: Final = {
    "registry": "the program itself says so, and its process runs",
    "hook": "the program called a hook when this began",
    "transcript": "concluded from what the session's file says",
}
_TODAY = """
SELECT a.session_id, sum(a.cost_micros) FROM answers a
WHERE a.counted = 1 AND a.time >= :since AND a.source_id IN (
  SELECT id FROM sources WHERE session_id IN (SELECT value FROM json_each(:ids))
  UNION SELECT source_id FROM agents WHERE session_id IN (SELECT value FROM json_each(:ids)))
GROUP BY a.session_id
"""


class _Board(NamedTuple):
    """The board at one time."""

    data: Json
    groups: list[Json]
    """The same as it looks."""
    needing: list[Json]


def board(request: Request) -> Response:
    """Show the board."""
    now = _board(request)
    return page(request, "board.html", now.data, shown=now.groups)


def events(request: Request) -> Response:
    """Send the board whenever it has changed."""
    return stream(_news(request, position(request)))


async def _news(request: Request, seen: str) -> AsyncIterator[News | None]:
    watching: Watching = request.app.state.watching
    while True:
        number = watching.bell.number
        news = await to_thread.run_sync(_told, request, seen)
        seen = news.position if news else seen
        yield news
        await watching.bell.wait(number, PATIENCE)


def _told(request: Request, seen: str) -> News | None:
    """Return the board's rows, if they are not those that were seen."""
    now = _board(request)
    position = now.data["position"]
    if position == seen:
        return None
    html = rendered(request, "board_rows.html", shown=now.groups)
    return News("board", {"html": html, "needing": now.needing, "mode": now.data["mode"]}, position)


def _board(request: Request) -> _Board:
    watching: Watching = request.app.state.watching
    place = place_of(request)
    now, rows = place.now(), watching.board.rows(place.now())
    with place.opened() as opened:
        room = _FEW[Group.IDLE] - sum(row.group is Group.IDLE for row in rows)
        rows += resting(opened, {row.session_id for row in rows}, max(room, 0) + len(rows))[: max(room, 0)]
        costs = _costs_today(opened, {row.session_id for row in rows}, now)
    told, groups = [], []
    for group in Group:
        own = [row for row in rows if row.group is group]
        if shown := own[: _FEW.get(group)]:
            about = {"name": group.value, "more": len(own) - len(shown)}
            told.append(
                {**about, "rows": [{**plain(row, now), "costToday": costs.get(row.session_id, 0)} for row in shown]}
            )
            groups.append(
                {**about, "rows": [{**_looks(row, now), "cost": costs.get(row.session_id, 0)} for row in shown]}
            )
    needing = [row for row in rows if row.group is Group.NEEDS_YOU]
    data = {
        "groups": told,
        "needing": len(needing),
        "mode": watching.mode,
        "unread": watching.board.unread,
        "complaint": request.app.state.upkeep.complaint,
        "position": _position(rows, costs, watching.mode),
    }
    return _Board(data, groups, [_notice(row, now) for row in needing])


def _costs_today(opened: Opened, ids: Iterable[str], now: datetime) -> dict[str, int]:
    """Return what each session has cost since midnight, its agents with it."""
    if opened.database is None:
        return {}
    midnight = datetime.combine(now.date(), time.min, now.tzinfo)
    asked = {"since": int(midnight.timestamp() * 1000), "ids": json.dumps(sorted(ids))}
    return dict(opened.database.execute(_TODAY, asked).fetchall())


def _position(rows: list[Row], costs: dict[str, int], mode: str) -> str:
    """Return what names the state of the board: the same rows have the same. Seconds that pass are no news."""
    told = repr((rows, sorted(costs.items()), mode))
    return hashlib.blake2b(told.encode(errors="replace"), digest_size=12).hexdigest()


def _notice(row: Row, now: datetime) -> Json:
    return {"key": _key(row), "title": row.title or row.session_id, "words": say(row.verdict, now), "href": _href(row)}


def _looks(row: Row, now: datetime) -> Json:
    """Return what a row shows."""
    words = say(row.verdict, now)
    limit = window(row.model) or max(_LIMIT, row.context_tokens or 0)
    share = min(1.0, (row.context_tokens or 0) / limit)
    since = row.since if row.group is not Group.IDLE else row.last
    passed = elapsed(since, now)
    return {
        "key": _key(row),
        "session": row.session_id,
        "agent": row.agent_id,
        "href": _href(row),
        "title": row.title or row.goal or "(waits for its first prompt)",
        "sign": _SIGNS[row.detail.kind],
        "status": row.status.value,
        "words": words.replace(f" {passed}", "", 1) if row.detail.kind is Kind.RUNNING else words,
        "since": since.timestamp() if since else "",
        "elapsed": passed,
        "project": row.project,
        "branch": row.branch,
        "agents": row.agents,
        "context_tokens": row.context_tokens,
        "gauge": round(_GAUGE * share),
        "full": "high" if share > 0.85 else "middle" if share > 0.6 else "low",
        "source": row.source.value,
        "basis": _BASIS[row.source.value],
        "checked": row.last.timestamp() if row.last else "",
        "age": elapsed(row.last, now),
        "recent": row.recent_output,
    }


def signs(request: Request, ids: Container[str]) -> dict[str, Json]:
    """Return what some sessions are doing, if they are on the board, each with its sign: for lists of sessions."""
    watching: Watching = request.app.state.watching
    now = place_of(request).now()
    return {
        row.session_id: {"sign": _SIGNS[row.detail.kind], "status": row.status.value, "words": say(row.verdict, now)}
        for row in watching.board.rows(now, ids)
        if row.agent_id is None
    }


def _key(row: Row) -> str:
    return f"{row.session_id}/{row.agent_id}" if row.agent_id else row.session_id


def _href(row: Row) -> str:
    return session_link(row.session_id, agent=row.agent_id)


routes = [*twins("/", board), Route("/events", events)]
