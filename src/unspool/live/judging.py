"""A session and its sub-agents judged together: files and what is known besides in, a verdict on each out.

An agent has no process of its own, and what it waits for the session waits for: so its calls are among those that may
ask, and how many agents work is a part of what the session is doing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from unspool.live.detail import Detail, Kind, Source, Verdict
from unspool.live.evidence import Evidence, Life, Running, Signal
from unspool.live.followed import RESTING, Followed
from unspool.live.permissions import Rules
from unspool.live.verdict import GRACE, verdict


class Known(NamedTuple):
    """What is known of a session besides its lines."""

    running: Running | None = None
    signals: Mapping[str, Signal] = {}
    rules: Rules = Rules()
    is_registered: bool = False


def judged(file: Followed, agents: list[Followed], known: Known, now: datetime) -> list[tuple[Followed, Verdict]]:
    """Return verdicts on a session and on its agents."""
    if known.running is not None and known.running.life is Life.LIVES:
        file.seen = now
    found = {agent.path: _of_agent(agent, known, now) for agent in agents}
    working = [agent for agent in agents if found[agent.path].detail.kind not in RESTING]
    evidence = Evidence(
        state=file.state,
        running=known.running,
        signals=known.signals,
        rules=known.rules,
        agents=sum(1 for agent in working if not agent.is_special),
        calls=tuple(call for agent in working if not agent.is_special for call in agent.state.open),
        is_registered=known.is_registered,
        was_seen=file.seen is not None and not _goes_on(file, file.seen),
        compacts=any((agent.name.agent_id or "").startswith("acompact") for agent in working),
    )
    own = verdict(evidence, now)
    if own.detail.kind in RESTING:
        found = {agent.path: _of_agent(agent, known, now, is_over=True) for agent in agents}
    return [(file, own), *((agent, found[agent.path]) for agent in agents)]


def orphan(agent: Followed, known: Known, now: datetime) -> Verdict:
    """Return the verdict on an agent whose session is not there."""
    return _of_agent(agent, known, now)


def _of_agent(agent: Followed, known: Known, now: datetime, *, is_over: bool = False) -> Verdict:
    stop = known.signals.get("SubagentStop")
    if stop is not None and stop.agent == agent.name.agent_id and not _is_after(agent.state.event, stop.at):
        return Verdict(Detail(Kind.ENDED), Source.HOOK, stop.at)
    return verdict(Evidence(agent.state, known.running, rules=known.rules, is_over=is_over), now)


def _is_after(one: datetime | None, other: datetime) -> bool:
    return one is not None and one > other


def _goes_on(file: Followed, seen: datetime) -> bool:
    """Tell whether lines came long after the process was last seen: then one that is in no registry writes them."""
    return file.state.event is not None and file.state.event > seen + GRACE
