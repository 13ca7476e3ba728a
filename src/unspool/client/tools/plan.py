"""The EnterPlanMode and ExitPlanMode tools: first a plan, then, if the user approves it, the work.

Rules
  1. The plan is in a file, `plans/<slug>.md` in the config folder, the one file that may be written in plan mode.
  2. Plan mode ends when the user approves the plan, and not otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from unspool.client.protocols import NoUser
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, ToolFailed, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments, make_schema
from unspool.client.tools.question import REJECTED, REJECTED_RESULT, STOP, USER_SAID
from unspool.errors import NotFound
from unspool.files import read_whole

_MAX_BYTES = 1 << 20
_ENTERED = "Entered plan mode. You should now focus on exploring the codebase and designing an implementation approach."
_INSTRUCTIONS = """

In plan mode, you should:
1. Thoroughly explore the codebase to understand existing patterns
2. Identify similar features and architectural approaches
3. Consider multiple approaches and their trade-offs
4. Use AskUserQuestion if you need to clarify the approach
5. Design a concrete implementation strategy
6. When ready, use ExitPlanMode to present your plan for approval

Remember: DO NOT write or edit any files yet. This is a read-only exploration and planning phase."""


class NoArguments(ToolArguments, frozen=True):
    """Nothing."""


class EnterPlanModeTool(BuiltInTool[NoArguments]):
    """Switch to plan mode."""

    name = "EnterPlanMode"
    description = "Begin to plan: for work that is large, or can be done in several ways. Nothing is changed meanwhile."
    arguments = NoArguments

    async def execute(self, arguments: NoArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Switch to plan mode, and name the file for the plan."""
        context.mode = "plan"
        where = f"\n\nWrite your plan to {_plan_file(context)}: that is the one file you may write."
        return ToolOutcome(content=_ENTERED + _INSTRUCTIONS + where, result={"message": _ENTERED})


class ExitPlanModeArguments(ToolArguments, frozen=True, rename="camel"):
    """What models give that know other versions of Claude Code; the schema does not offer it."""

    allowed_prompts: Any = None
    plan: str | None = None
    plan_file_path: str | None = None


class ExitPlanModeTool(BuiltInTool[ExitPlanModeArguments]):
    """Ask the user to approve the plan."""

    name = "ExitPlanMode"
    description = "Have the user approve the plan that you have written to the plan file, and leave plan mode."
    arguments = ExitPlanModeArguments

    def __init__(self) -> None:
        self.input_schema = make_schema(NoArguments)

    async def execute(self, arguments: ExitPlanModeArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Ask the user, and leave plan mode if the plan is approved."""
        if context.mode != "plan":
            raise InvalidToolCall(
                "You are not in plan mode. This tool is only for exiting plan mode after writing a plan. If your plan "
                "was already approved, continue with implementation."
            )
        path = _plan_file(context)
        plan = _load_plan(path, arguments.plan)
        if isinstance(context.user, NoUser):
            raise ToolFailed("Nobody is here to approve the plan. End with the plan itself as your answer.")
        answer = await context.user.approve_plan(plan)
        if not answer.allowed:
            words = USER_SAID + answer.words if answer.words else STOP
            return ToolOutcome(content=REJECTED + words, result=REJECTED_RESULT, is_error=True)
        context.mode = answer.mode or "default"
        text = (
            "User has approved your plan. You can now start coding. Start with updating your todo list if applicable"
            f"\n\nYour plan has been saved to: {path}\nYou can refer back to it if needed during implementation."
            f"\n\n## Approved Plan:\n{plan}"
        )
        return ToolOutcome(content=text, result={"plan": plan, "isAgent": False, "filePath": str(path)})


def _plan_file(context: ToolContext) -> Path:
    """Return the file of the plan, and remember it in the context."""
    if context.plan_file is None:
        context.plan_file = context.workspace.config / "plans" / f"{context.workspace.session_id}.md"
    return context.plan_file


def _load_plan(path: Path, given: str | None) -> str:
    """Return the plan in the file; one that came with the call is written there first."""
    if given is not None and given.strip():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The path was never judged: a link in its place must not lead the text to another file.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
            file.write(given)
        return given
    try:
        plan = read_whole(path, _MAX_BYTES).decode("utf-8", "replace")
    except NotFound:
        plan = ""
    if not plan.strip():
        raise InvalidToolCall(
            f"No plan file found at {path}. Please write your plan to this file before calling ExitPlanMode."
        )
    return plan
