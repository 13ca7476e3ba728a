"""Task: an errand in, what the agent that was sent on it brings back out. `Agent` is its name in newer versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from unspool.client.agent_definitions import BUILT_IN, Agent
from unspool.client.tool_context import Desk, Errand
from unspool.client.tools.base import Asked, Json, Outcome, ToolFailed, aim, parse, schema

_USUAL = "general-purpose"
_SHOWN = 150
"""Characters of an agent's description."""
_MOST = 2000
"""Characters of all of them: the window may be small."""
_UNUSED = frozenset({"max_turns", "name", "effort"})
"""What newer models give as well; none of it changes what is done."""


class TaskInput(Asked, frozen=True):
    """The input of a call."""

    description: Annotated[str, msgspec.Meta(description="The errand in 3 to 5 words")]
    prompt: Annotated[str, msgspec.Meta(description="All the agent needs to know, and what to report")]
    subagent_type: str = _USUAL
    model: Annotated[str | None, msgspec.Meta(description="Another model: sonnet, opus, haiku or a full name")] = None
    run_in_background: bool | None = None


class Task:
    """Send an agent."""

    input_schema = schema(TaskInput)
    is_concurrent = True

    def __init__(self, agents: Sequence[Agent] = BUILT_IN, name: str = "Task") -> None:
        self.name = name
        self._names = [agent.name for agent in agents]
        listed = "\n".join(f"- {agent.name}: {_short(agent.description)}" for agent in agents)
        self.description = (
            "Send an agent with a context of its own on an errand; it returns one message. Send several in one answer "
            f"to have them work at once. Good for searches that would fill the context.\n{listed[:_MOST]}"
        )

    def target(self, input: Json) -> str:
        """Return the errand in a few words."""
        return aim(input, "description", "prompt")

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Send it."""
        if isinstance(input, dict):
            input = {name: value for name, value in input.items() if name not in _UNUSED}
        given = parse(self.name, input, TaskInput)
        if given.subagent_type not in self._names:
            available = ", ".join(self._names)
            raise ToolFailed(f"Agent type '{given.subagent_type}' not found. Available agents: {available}")
        if desk.crew is None:
            raise ToolFailed("No agent can be sent from here. Do the work yourself.")
        errand = Errand(
            kind=given.subagent_type,
            prompt=given.prompt,
            description=given.description,
            model=given.model,
            background=bool(given.run_in_background),
        )
        return await desk.crew.send(errand, call_id)


def _short(description: str) -> str:
    line = " ".join(description.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
