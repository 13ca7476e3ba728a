"""EnterPlanMode and ExitPlanMode: first a plan, then, if the person agrees, the work.

Rules
  1. The plan is in a file, `plans/<slug>.md` in the config folder, the one file that may be written in plan mode.
  2. Plan mode ends when a person says that the plan is good, and not otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from unspool.client.protocols import Nobody
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Asked, BadCall, Json, Outcome, ToolFailed, parse, schema
from unspool.client.tools.question import REJECTED, REJECTED_RESULT, STOP, TOLD
from unspool.errors import NotFound
from unspool.files.open import read_whole

_LARGEST = 1 << 20
_ENTERED = "Entered plan mode. You should now focus on exploring the codebase and designing an implementation approach."
_MANNERS = """

In plan mode, you should:
1. Thoroughly explore the codebase to understand existing patterns
2. Identify similar features and architectural approaches
3. Consider multiple approaches and their trade-offs
4. Use AskUserQuestion if you need to clarify the approach
5. Design a concrete implementation strategy
6. When ready, use ExitPlanMode to present your plan for approval

Remember: DO NOT write or edit any files yet. This is a read-only exploration and planning phase."""


class EnterPlanModeInput(Asked, frozen=True):
    """The input of a call."""


class EnterPlanMode:
    """Plan first."""

    name = "EnterPlanMode"
    description = "Begin to plan: for work that is large, or can be done in several ways. Nothing is changed meanwhile."
    input_schema = schema(EnterPlanModeInput)
    is_concurrent = False

    def target(self, input: Json) -> str:
        """Return nothing: there is but one plan mode."""
        return ""

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Go into plan mode."""
        parse(self.name, input, EnterPlanModeInput)
        desk.mode = "plan"
        where = f"\n\nWrite your plan to {_file(desk)}: that is the one file you may write."
        return Outcome(content=_ENTERED + _MANNERS + where, result={"message": _ENTERED})


class ExitPlanModeInput(Asked, frozen=True, rename="camel"):
    """The input of a call."""

    allowed_prompts: Any = None
    plan: str | None = None
    plan_file_path: str | None = None


class ExitPlanMode:
    """Hand in a plan."""

    name = "ExitPlanMode"
    description = "Have the user approve the plan that you have written to the plan file, and leave plan mode."
    input_schema = schema(EnterPlanModeInput)
    is_concurrent = False

    def target(self, input: Json) -> str:
        """Return nothing: there is but one plan."""
        return ""

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Ask the person whether the plan is good."""
        given = parse(self.name, input, ExitPlanModeInput)
        if desk.mode != "plan":
            raise BadCall(
                "You are not in plan mode. This tool is only for exiting plan mode after writing a plan. If your plan "
                "was already approved, continue with implementation."
            )
        path = _file(desk)
        plan = _plan(path, given.plan)
        if isinstance(desk.person, Nobody):
            raise ToolFailed("Nobody is here to approve the plan. End with the plan itself as your answer.")
        permit = await desk.person.approve(plan)
        if not permit.allowed:
            words = TOLD + permit.words if permit.words else STOP
            return Outcome(content=REJECTED + words, result=REJECTED_RESULT, is_error=True)
        desk.mode = permit.mode or "default"
        text = (
            "User has approved your plan. You can now start coding. Start with updating your todo list if applicable"
            f"\n\nYour plan has been saved to: {path}\nYou can refer back to it if needed during implementation."
            f"\n\n## Approved Plan:\n{plan}"
        )
        return Outcome(content=text, result={"plan": plan, "isAgent": False, "filePath": str(path)})


def _file(desk: Desk) -> Path:
    """Return the file of the plan, and remember it."""
    if desk.plan is None:
        desk.plan = desk.place.config / "plans" / f"{desk.place.session_id}.md"
    return desk.plan


def _plan(path: Path, given: str | None) -> str:
    """Return the plan in the file; one that was handed in with the call is written there first."""
    if given is not None and given.strip():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as file:
            file.write(given)
        return given
    try:
        plan = read_whole(path, _LARGEST).decode("utf-8", "replace")
    except NotFound:
        plan = ""
    if not plan.strip():
        raise BadCall(f"No plan file found at {path}. Please write your plan to this file before calling ExitPlanMode.")
    return plan
