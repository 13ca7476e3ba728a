"""What sessions are doing now, as signs and words: for the inbox and for lists of sessions."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from starlette.requests import Request

from unspool.live.state import Activity, ActivityKind, SessionStatus, Verdict, describe_verdict
from unspool.web.serving.responses import Json
from unspool.web.serving.services import services_of

SIGNS: Final = {
    ActivityKind.PERMISSION: "?", ActivityKind.QUESTION: "?", ActivityKind.ERROR: "✗", ActivityKind.RUNNING: "▸",
    ActivityKind.THINKING: "▸", ActivityKind.AGENTS: "▸", ActivityKind.RETRYING: "↻", ActivityKind.COMPACTING: "▸",
    ActivityKind.BACKGROUND: "▸", ActivityKind.WAITING: "●", ActivityKind.INTERRUPTED: "■", ActivityKind.ENDED: "○",
    ActivityKind.IDLE: "·",
}  # fmt: skip


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
    return {"sign": SIGNS[kind], "status": status.value, "kind": kind.value, "words": describe_verdict(verdict, now)}
