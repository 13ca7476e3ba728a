"""The agents of a session under the calls that started them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unspool.export.figures import amount
from unspool.export.steps import Call, Story
from unspool.format.entry import Entry
from unspool.graph.agents import Agent, AgentClass
from unspool.home import Session, read_items
from unspool.read.scan import Source


class NestedAgent(msgspec.Struct, frozen=True):
    """An agent and its file."""

    agent: Agent
    source: Source

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The lines of its file. Read each time: few look at all of them."""
        return tuple(item for item in read_items(self.source.path) if isinstance(item, Entry))

    @property
    def words(self) -> str:
        """What it is, on one line."""
        kind = self.agent.type or (self.agent.kind.value if self.agent.kind is not AgentClass.TASK else "")
        return " ".join(part for part in (f"agent {self.agent.id}", f"({kind})" if kind else "") if part)


def by_call(session: Session) -> dict[str, list[NestedAgent]]:
    """Return the agents of a session by the call that started each."""
    found: dict[str, list[NestedAgent]] = {}
    for agent, source in zip(session.agents, session.agent_sources, strict=True):
        if agent.call is not None:
            found.setdefault(agent.call.id, []).append(NestedAgent(agent, source))
    return found


def did(entries: Sequence[Entry]) -> str:
    """Say how much an agent did: `12 calls, 1 failed`."""
    calls = [step.call for step in Story(entries).steps(entries) if isinstance(step, Call)]
    failed = sum(call.failed for call in calls)
    return amount(len(calls), "call") + (f", {failed:,} failed" if failed else "")
