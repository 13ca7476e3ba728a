"""Decides whether a hook is called for a tool call: its field `if`, which is a permission rule such as `Bash(git *)`.

Rules
  1. A condition holds where a rule that denies would be about the call, as Claude Code 2.1.327 has it (measured): for
     each part of a command, also in subshells and substitutions.
  2. A hook may be meant to deny: where the call is not fully understood, or the rule is none, the hook is called.
  3. Events that are about no tool call never fulfil a condition (measured with `UserPromptSubmit` and `Stop`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unspool.client.hooks.answers import HookCall
from unspool.client.permissions.paths import PathsOnDisk
from unspool.client.tool_context import ToolContext, Workspace
from unspool.permissions import CallCheck, PermissionRule, RuleSet, canonical_tool_name, decide_call, parse_rule

CALL_EVENTS = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"})
"""The events that are about one tool call."""


class CallCondition:
    """The condition of one hook."""

    def __init__(self, rule: PermissionRule, root: Path, environment: Mapping[str, str]) -> None:
        self.text = rule.text
        self._rule, self._root, self._environment = rule, root, environment

    def holds(self, call: HookCall) -> bool:
        """Return whether the hook is called for an event."""
        tool, input, cwd = call.input.get("tool_name"), call.input.get("tool_input"), call.input.get("cwd")
        if call.event not in CALL_EVENTS:
            return False
        if not isinstance(tool, str) or not isinstance(input, dict):
            return True
        if not self._rule.covers_tool(canonical_tool_name(tool), forbids=True):
            return False
        context = ToolContext(Workspace(self._root, self._root, "", self._root), self._environment)
        if isinstance(cwd, str) and cwd:
            context.cwd = Path(cwd)
        # In this mode a call is allowed unless a rule is about it, or may be.
        check = CallCheck(RuleSet(deny=(self._rule,)), PathsOnDisk(context), mode="bypassPermissions", trusted=True)
        return decide_call(check, tool, input)[0].behaviour != "allow"


def parse_condition(
    event: str, value: object, root: Path, environment: Mapping[str, str]
) -> tuple[CallCondition | None, str | None]:
    """Return the condition that a field `if` is, and what is wrong with it; without a condition a hook is called."""
    if value is None or value == "":
        return None, None
    rule = parse_rule(value, folder=str(root)) if isinstance(value, str) else None
    if rule is None:
        return None, "its `if` is no permission rule, the hook runs without"
    problem = None if event in CALL_EVENTS else f"it never runs: its `if` is about tool calls, and `{event}` is not"
    return CallCondition(rule, root, environment), problem
