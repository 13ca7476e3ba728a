"""Decide whether a tool call may be made: a tool and its input in, a decision with its reason out. Pure.

Rules
  1. Deny goes before ask, ask before allow, whatever the mode; then the mode decides, then the default of the tool.
  2. What no rule and no mode decides is asked about. Where nobody is to be asked (`dontAsk`), it is denied.
  3. A rule is suggested only if with it the same call would not be asked about again.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from unspool.format.tools import EDIT_TOOLS
from unspool.permissions.call_check import CallCheck, PartDecision, RuleDecision, allow_by_mode, by_default, by_rule
from unspool.permissions.paths import PARENT_IN_PATTERN, split_absolute_glob
from unspool.permissions.rules import (
    READ_TOOLS,
    SHELL_TOOL,
    PermissionRule,
    canonical_tool_name,
    host_of_url,
    parse_rule,
    split_rules,
)

Json: TypeAlias = dict[str, Any]
_ALWAYS_ALLOWED = frozenset(
    {"TodoWrite", "TodoRead", "Task", "TaskOutput", "AgentOutputTool", "KillShell", "AskUserQuestion", "EnterPlanMode",
     "ExitPlanMode", "StructuredOutput", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList", "ToolSearch",
     "ListMcpResourcesTool", "ReadMcpResourceTool"}
)  # fmt: skip
"""Tools that change nothing by themselves, or ask the user anyway; the calls of agents are decided one by one."""


def decide_call(check: CallCheck, tool: str, input: Json) -> tuple[RuleDecision, list[PartDecision]]:
    """Return the decision about a call, and the decisions about its parts that led to it."""
    tool = canonical_tool_name(tool)
    decision, parts = _decide(check, tool, input)
    if decision.suggestions:
        suggestions = (rule for rule in decision.suggestions if _would_allow(rule, check, tool, input))
        first = next(suggestions, None)
        decision = msgspec.structs.replace(decision, suggestions=() if first is None else (first,))
    if check.mode == "dontAsk" and decision.behaviour == "ask":
        why = f"{decision.why}; in `dontAsk` what is not allowed is denied"
        decision = msgspec.structs.replace(decision, behaviour="deny", why=why)
    return decision, parts


def _would_allow(suggestion: str, check: CallCheck, tool: str, input: Json) -> bool:
    """Return whether a suggestion, which may be several rules, would allow a call."""
    rules = [parse_rule(text, "session", check.paths.root) for text in split_rules(suggestion)]
    valid = [rule for rule in rules if rule is not None]
    return len(valid) == len(rules) and _decide(check.with_allowed(valid), tool, input)[0].behaviour == "allow"


def _decide(check: CallCheck, tool: str, input: Json) -> tuple[RuleDecision, list[PartDecision]]:
    """Decide on a call, with rules that might allow it."""
    if tool == SHELL_TOOL:
        command = input.get("command")
        if not isinstance(command, str):
            return by_default("ask", "its input has no command"), []
        from unspool.permissions.shell_decide import decide_command  # start-up: a chat may run no command

        return decide_command(check, command)
    decision = _decide_tool(check, tool, input)
    return decision, [PartDecision(tool, decision)]


def _decide_tool(check: CallCheck, tool: str, input: Json) -> RuleDecision:
    """Decide on a call of a tool other than the shell."""
    if tool in READ_TOOLS or tool in EDIT_TOOLS:
        return _decide_files(check, tool, input)
    if tool == "WebFetch":
        return _decide_page(check, input)
    value = input.get("subagent_type") if tool == "Task" else input.get("skill", input.get("command"))

    def matches(rule: PermissionRule) -> bool:
        return rule.specifier is None or (isinstance(value, str) and rule.matches_name(value))

    if decision := check.check_forbidding(tool, matches, f"`{tool}`"):
        return decision
    if tool in _ALWAYS_ALLOWED:
        return by_default("allow", f"`{tool}` needs no permission")
    if check.mode == "plan" and tool != "WebSearch":
        why = f"in plan mode tools only look, and `{tool}` may do more"
        return RuleDecision(behaviour="deny", why=why, source="mode")
    if check.mode == "bypassPermissions":
        return allow_by_mode(check.mode)
    if rule := check.first_rule("allow", tool, matches):
        return by_rule("allow", rule, f"`{tool}`")
    return by_default("ask", f"no rule allows `{tool}`", (tool,))


def _decide_files(check: CallCheck, tool: str, input: Json) -> RuleDecision:
    """Decide on a call that names files: the strictest decision about any of them."""
    names = [input[key] for key in ("file_path", "notebook_path", "path") if isinstance(input.get(key), str)]
    if tool in ("Glob", "Grep"):
        names = names or [check.paths.cwd]
        pattern = input.get("pattern") if tool == "Glob" else None
        if isinstance(pattern, str) and ".." in pattern.split("/"):
            return by_default("ask", f"the pattern leads nowhere: {PARENT_IN_PATTERN}")
        if isinstance(pattern, str) and pattern.startswith("/"):  # it is searched in a folder of its own
            names.append(split_absolute_glob(pattern)[0])
    if not names:
        return by_default("ask", f"the input of `{tool}` names no file")
    order = {"deny": 0, "ask": 1, "allow": 2}
    return min((_decide_file(check, tool, name) for name in names), key=lambda decision: order[decision.behaviour])


def _decide_file(check: CallCheck, tool: str, name: str) -> RuleDecision:
    path = check.paths.resolve(name)
    if path is None:
        return by_default("ask", f"where `{name}` leads is not known")
    decide = check.decide_read if tool in READ_TOOLS else check.decide_edit
    return decide(tool, path, check.paths.make_absolute(name))


def _decide_page(check: CallCheck, input: Json) -> RuleDecision:
    url = input.get("url")
    if not isinstance(url, str):
        return by_default("ask", "the input of `WebFetch` has no address")
    host = host_of_url(url)
    what = f"pages of `{host}`" if host else "this page"
    if decision := check.check_forbidding("WebFetch", lambda rule: rule.matches_host(url, forbids=True), what):
        return decision
    if check.mode == "bypassPermissions":
        return allow_by_mode(check.mode)
    if rule := check.first_rule("allow", "WebFetch", lambda rule: rule.matches_host(url)):
        return by_rule("allow", rule, what)
    return by_default("ask", f"no rule allows {what}", (f"WebFetch(domain:{host})",) if host else ())
