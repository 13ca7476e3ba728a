"""Sessions that rest, as rows of the board: the store in, rows out. The board itself reads none of their files."""

from __future__ import annotations

import json
from collections.abc import Container

from unspool.export.figures import moment
from unspool.live.board import Detail, Group, Kind, Row, Source, Status
from unspool.store.freshness import WITHIN, within
from unspool.store.opened import Opened

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
        model=names[0] if names else None, status=Status.IDLE, detail=Detail(Kind.IDLE), source=Source.TRANSCRIPT,
        since=moment(last), last=moment(last), goal=(prompt or "")[:200], recent_output="", pending=None, tokens_5m=0,
        tokens_1h=0, context_tokens=int(context) if context is not None else None, agents=0, project_hash=key,
        probably=False, group=Group.IDLE, started=moment(started),
    )  # fmt: skip
