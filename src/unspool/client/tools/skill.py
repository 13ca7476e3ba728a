"""The Skill tool: sends the instructions of a skill to the model, or has a subagent follow them.

Rules
  1. Its description has the names and descriptions of skills, shortened: the model's context window may be small.
  2. What is written to the session is what Claude Code 2.1.29 and 2.1.326 write: `Launching skill: NAME`, and a meta
     line with the text that names the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from unspool.client.prompt.custom_commands import CustomCommand
from unspool.client.tool_context import AgentTask, ToolContext
from unspool.client.tool_result import InvalidToolCall, Json, ToolFailed, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments, first_text

LoadSkill: TypeAlias = Callable[[CustomCommand, str, ToolContext], Awaitable[str]]
"""Returns the text of a skill, with its arguments, and lets its rules act."""

_DEFAULT_AGENT = "general-purpose"
_MAX_DESCRIPTION = 250
_MAX_DESCRIPTIONS = 6000
"""Characters of all descriptions."""


class SkillArguments(ToolArguments, frozen=True):
    """The skill, and what it is given."""

    skill: Annotated[str, msgspec.Meta(description="A name of the list")]
    args: str | None = None


class SkillTool(BuiltInTool[SkillArguments]):
    """Use a skill."""

    name = "Skill"
    arguments = SkillArguments
    target_fields = ("skill", "command")

    def __init__(self, skills: Sequence[CustomCommand], load: LoadSkill) -> None:
        super().__init__()
        self._skills = {skill.name: skill for skill in skills}
        self._load = load
        listed = "\n".join(f"- {skill.name}: {_shorten(skill.description)}" for skill in skills if skill.for_model)
        self.description = (
            "Load the instructions of a skill that fits the task, then follow them. Use a skill before you do its work "
            f"another way. Skills:\n{listed[:_MAX_DESCRIPTIONS]}"
        )

    def adapt(self, input: Any) -> Any:
        """Return an input whose field has the name of today; at first it was `command`."""
        if isinstance(input, dict) and "skill" not in input and "command" in input:
            return {"skill" if key == "command" else key: value for key, value in input.items()}
        return super().adapt(input)

    def check(self, input: Json) -> None:
        """Raise an `InvalidToolCall` if there is no such skill for the model."""
        super().check(input)
        self._find(first_text(self.adapt(input), "skill"))

    async def execute(self, arguments: SkillArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Load the skill."""
        skill = self._find(arguments.skill)
        text = await self._load(skill, arguments.args or "", context)
        if skill.forks:
            return await _run_apart(skill, text, context, call_id)
        result: Json = {"success": True, "commandName": skill.name}
        if skill.allowed:
            result["allowedTools"] = [*skill.allowed]
        return ToolOutcome(
            content=f"Launching skill: {skill.name}",
            result=result,
            extra=({"type": "text", "text": text},),
            names_source=True,
        )

    def _find(self, name: str) -> CustomCommand:
        skill = self._skills.get(name.strip().removeprefix("/"))
        if skill is None:
            raise InvalidToolCall(f"Unknown skill: {name}")
        if not skill.for_model:
            raise InvalidToolCall(
                f"Skill {skill.name} cannot be used with Skill tool due to disable-model-invocation. Ask the user "
                f"to run /{skill.name}."
            )
        return skill


async def _run_apart(skill: CustomCommand, text: str, context: ToolContext, call_id: str) -> ToolOutcome:
    """Have a subagent follow a skill."""
    if context.run_subagent is None:
        raise ToolFailed("No agent can be sent from here. Do the work yourself.")
    task = AgentTask(kind=skill.agent or _DEFAULT_AGENT, prompt=text, description=skill.name, model=skill.model)
    outcome = await context.run_subagent(task, call_id)
    blocks = outcome.content if isinstance(outcome.content, list) else [{"text": outcome.content}]
    answer = "\n".join(str(block.get("text", "")) for block in blocks)
    agent = outcome.result.get("agentId") if isinstance(outcome.result, dict) else None
    return ToolOutcome(
        content=f'Skill "{skill.name}" completed (forked execution).\n\nResult:\n{answer}',
        result={"success": True, "commandName": skill.name, "status": "forked", "agentId": agent, "result": answer},
    )


def _shorten(description: str) -> str:
    line = " ".join(description.split())
    return line if len(line) <= _MAX_DESCRIPTION else f"{line[: _MAX_DESCRIPTION - 1]}…"
