"""The Task tool: starts a subagent and returns its answer. `Agent` is its name in newer versions of Claude Code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from unspool.client.prompt.agent_definitions import BUILT_IN_AGENTS, AgentDefinition
from unspool.client.tool_context import AgentTask, ToolContext
from unspool.client.tool_result import ToolFailed, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments

_DEFAULT_AGENT = "general-purpose"
_MAX_DESCRIPTION = 150
"""Characters of one agent's description."""
_MAX_DESCRIPTIONS = 2000
"""Characters of all of them: the model's context window may be small."""


class TaskArguments(ToolArguments, frozen=True):
    """The work, and the agent that does it."""

    description: Annotated[str, msgspec.Meta(description="The errand in 3 to 5 words")]
    prompt: Annotated[str, msgspec.Meta(description="All the agent needs to know, and what to report")]
    subagent_type: str = _DEFAULT_AGENT
    model: Annotated[str | None, msgspec.Meta(description="Another model: sonnet, opus, haiku or a full name")] = None
    run_in_background: bool | None = None


class TaskTool(BuiltInTool[TaskArguments]):
    """Start a subagent."""

    name = "Task"
    is_concurrent = True
    arguments = TaskArguments
    target_fields = ("description", "prompt")
    # Newer models give these as well.
    ignored_fields = frozenset({"max_turns", "name", "effort"})

    def __init__(self, agents: Sequence[AgentDefinition] = BUILT_IN_AGENTS, name: str | None = None) -> None:
        super().__init__(name)
        self._names = [agent.name for agent in agents]
        listed = "\n".join(f"- {agent.name}: {_shorten(agent.description)}" for agent in agents)
        self.description = (
            "Send an agent with a context of its own on an errand; it returns one message. Send several in one answer "
            f"to have them work at once. Good for searches that would fill the context.\n{listed[:_MAX_DESCRIPTIONS]}"
        )

    async def execute(self, arguments: TaskArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Start the subagent, and wait for its answer unless it runs in the background."""
        if arguments.subagent_type not in self._names:
            available = ", ".join(self._names)
            raise ToolFailed(f"Agent type '{arguments.subagent_type}' not found. Available agents: {available}")
        if context.run_subagent is None:
            raise ToolFailed("No agent can be sent from here. Do the work yourself.")
        task = AgentTask(
            kind=arguments.subagent_type,
            prompt=arguments.prompt,
            description=arguments.description,
            model=arguments.model,
            background=bool(arguments.run_in_background),
        )
        return await context.run_subagent(task, call_id)


def _shorten(description: str) -> str:
    line = " ".join(description.split())
    return line if len(line) <= _MAX_DESCRIPTION else f"{line[: _MAX_DESCRIPTION - 1]}…"
