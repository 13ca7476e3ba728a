"""The agents of a session under the calls that started them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unspool.export.figures import amount
from unspool.export.steps import Call, Story
from unspool.format.entry import Entry
from unspool.graph.agents import Agent, AgentClass
from unspool.home import Session


class NestedAgent(msgspec.Struct, frozen=True):
    """An agent and its lines."""

    agent: Agent
    entries: Sequence[Entry]

    @property
    def words(self) -> str:
        """What it is, on one line."""
        kind = self.agent.type or (self.agent.kind.value if self.agent.kind is not AgentClass.TASK else "")
        return " ".join(part for part in (f"agent {self.agent.id}", f"({kind})" if kind else "") if part)


def by_call(session: Session) -> dict[str, list[NestedAgent]]:
    """Return the agents of a session by the call that started each."""
    found: dict[str, list[NestedAgent]] = {}
    for agent, file in zip(session.agents, session.agent_files, strict=True):
        if agent.call is not None:
            found.setdefault(agent.call.id, []).append(NestedAgent(agent, file.entries))
    return found


def did(entries: Sequence[Entry]) -> str:
    """Say how much an agent did: `12 calls, 1 failed`."""
    calls = [step.call for step in Story(entries).steps(entries) if isinstance(step, Call)]
    failed = sum(call.failed for call in calls)
    return amount(len(calls), "call") + (f", {failed:,} failed" if failed else "")
