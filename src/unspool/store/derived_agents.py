"""What the file of a sub-agent says of it, for each session it belongs to: entries in, rows of `agent_files` out.

Rules
  1. In a file inside a session's folder all lines are that session's. Beside a session (until 2.0.76) a line is of the
     session it names; one that names none is of each.
  2. The class is that of `graph/agents.py`, before the agent is linked to a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from unspool.format.entry import Entry
from unspool.format.records import User
from unspool.graph.agents import AgentClass
from unspool.graph.facts import is_special
from unspool.graph.turns import Speaker, speaker, text_of

if TYPE_CHECKING:
    from unspool.store.derived import Place
    from unspool.store.derived_calls import Out


class _Seen(msgspec.Struct):
    """The lines of one session."""

    lines: int = 0
    started: int | None = None
    ended: int | None = None
    first: tuple[int, str, str] | None = None
    """The place of the first user line, the class it shows, its words."""


class AgentLines:
    """One pass over an agent's file."""

    def __init__(self, place: Place, out: Out) -> None:
        self._place, self._out = place, out
        self._seen: dict[str | None, _Seen] = {}

    def take(self, entry: Entry, time: int | None) -> None:
        """Take a line."""
        record = entry.record
        owner = self._place.session_id or record.session_id
        seen = self._seen.setdefault(owner, _Seen())
        seen.lines += 1
        if time is not None:
            seen.started = time if seen.started is None else min(seen.started, time)
            seen.ended = time if seen.ended is None else max(seen.ended, time)
        if seen.first is None and isinstance(record, User):
            seen.first = (entry.offset, _class(record), text_of(record.message.blocks))

    def finish(self) -> None:
        """Write a row for each session; one that is nobody's has none in it."""
        place = self._place
        shared = self._seen.pop(None, _Seen()) if len(self._seen) != 1 or None not in self._seen else None
        id = place.agent_id or place.path.rpartition("/")[2].removesuffix(".jsonl")
        for owner, seen in self._seen.items() or [(place.session_id, _Seen())]:
            both = [seen, shared] if shared else [seen]
            first = min((one.first for one in both if one.first), default=None)
            kind = AgentClass.ORPHAN.value if first is None else first[1]
            if is_special(id):
                kind = AgentClass.SPECIAL.value
            if "/subagents/workflows/" in place.path:
                kind = AgentClass.WORKFLOW.value
            family = place.family or f"{place.path.rpartition('/')[0]}/{owner}"
            started = min((one.started for one in both if one.started is not None), default=None)
            ended = max((one.ended for one in both if one.ended is not None), default=None)
            lines = sum(one.lines for one in both)
            self._out("agent_files", (family, owner, id, kind, first[2] if first else "", started, ended, lines))


def _class(record: User) -> str:
    if speaker(record) is Speaker.WARMUP:
        return AgentClass.WARMUP.value
    if record.team_name or text_of(record.message.blocks).startswith("<teammate-message"):
        return AgentClass.TEAMMATE.value
    return AgentClass.TASK.value
