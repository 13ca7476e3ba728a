"""Decide whether a tool call may be made: a tool and its input in, a decision with its reason out.

Rules
  1. Deny goes before ask, ask before allow, whatever the mode; then the mode decides, then the default of the tool.
  2. What no rule and no mode decides is asked about. Where nobody is to be asked (`dontAsk`), it is denied.
  3. Only rules allow. The contents of files, results and prompts are never looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from unspool.client.permissions.file_access import CallCheck, PartDecision, allow_by_mode, by_default, by_rule
from unspool.client.permissions.paths import resolve_search
from unspool.client.permissions.settings import MODES, EffectiveSettings, add_local_rule
from unspool.client.permissions.shell_decide import decide_command
from unspool.client.protocols import RuleDecision
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall
from unspool.errors import UsageError
from unspool.format.tools import EDIT_TOOLS
from unspool.permissions import (
    READ_TOOLS,
    SHELL_TOOL,
    PermissionRule,
    RuleSet,
    canonical_tool_name,
    host_of_url,
    parse_rule,
    split_rules,
)

Json: TypeAlias = dict[str, Any]
_ALWAYS_ALLOWED = frozenset(
    {"TodoWrite", "TodoRead", "Task", "TaskOutput", "AgentOutputTool", "KillShell", "AskUserQuestion", "EnterPlanMode",
     "ExitPlanMode", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList"}
)  # fmt: skip
"""Tools that change nothing by themselves, or ask the user anyway; the calls of agents are decided one by one."""


class PermissionPolicy:
    """The permission rules of one session; its agents have the same."""

    def __init__(self, settings: EffectiveSettings | None = None, *, root: Path, trusted: bool = False) -> None:
        self.settings = settings or EffectiveSettings()
        self.root, self.trusted = root, trusted
        self._session_rules: tuple[PermissionRule, ...] = ()
        self._temporary_rules: tuple[PermissionRule, ...] = ()

    def judge(self, tool: str, input: Json, context: ToolContext) -> RuleDecision:
        """Decide whether a call may be made."""
        return self._decide(tool, input, context)[0]

    def _decide(self, tool: str, input: Json, context: ToolContext) -> tuple[RuleDecision, list[PartDecision]]:
        # A mode that the settings forbid does not act, however it got into the context.
        mode = "default" if self.mode_problem(context.mode) else context.mode
        check = CallCheck(self._rules(), context, mode=mode, trusted=self.trusted)
        tool = canonical_tool_name(tool)
        if tool == SHELL_TOOL:
            command = input.get("command")
            if not isinstance(command, str):
                return by_default("ask", "its input has no command"), []
            decision, parts = decide_command(check, command)
        else:
            decision = _decide_tool(check, tool, input)
            parts = [PartDecision(tool, decision)]
        if check.mode == "dontAsk" and decision.behaviour == "ask":
            why = f"{decision.why}; in `dontAsk` what is not allowed is denied"
            decision = msgspec.structs.replace(decision, behaviour="deny", why=why)
        return decision, parts

    def explain(self, tool: str, input: Json, context: ToolContext) -> list[str]:
        """Return lines that say why a call is allowed, asked about or denied."""
        decision, parts = self._decide(tool, input, context)
        lines = [
            f"{decision.behaviour}: {decision.why}",
            f"mode: {context.mode}; folder {'' if self.trusted else 'not '}trusted",
        ]
        if len(parts) > 1:
            lines += [f"  {part.decision.behaviour:5}  {part.part}  ({part.decision.why})" for part in parts]
        lines += [f"rule: {decision.rule} ({decision.source})"] if decision.rule else []
        lines += [f"would be allowed by: {rule}" for rule in decision.suggestions]
        return [*lines, *(f"note: {problem}" for problem in self.settings.problems)]

    def mode_problem(self, mode: str) -> str | None:
        """Return why a mode cannot be used; None if it can."""
        if mode not in MODES:
            return f"there is no mode `{mode}`; there are {', '.join(f'`{name}`' for name in MODES)}"
        if mode == "bypassPermissions" and self.settings.no_bypass:
            return "the settings do not allow `bypassPermissions` (`disableBypassPermissionsMode`)"
        return None

    def keep(self, rule: str, where: Literal["once", "session", "local"]) -> None:
        """Allow something from now on: a rule, or several with commas between them.

        `local` also writes it to `.claude/settings.local.json`, if the folder is trusted: else it would not be read.
        """
        rules = [_parse_valid_rule(text, "session", self.root) for text in split_rules(rule)]
        if where == "once":
            return
        self._session_rules += tuple(rules)
        if where == "local" and self.trusted:
            for added in rules:
                add_local_rule(self.root, added.text)

    def allow_temporarily(self, rules: Iterable[str]) -> None:
        """Allow more until `end_temporary_rules`: what a custom command says in `allowed-tools`."""
        self._temporary_rules += tuple(_parse_valid_rule(rule, "command", self.root) for rule in rules)

    def end_temporary_rules(self) -> None:
        """Drop the rules of `allow_temporarily`."""
        self._temporary_rules = ()

    def denied_tools(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools that a rule denies altogether: the model need not be offered them."""
        denied = {rule.tool for rule in self.settings.rules.deny if rule.specifier is None}
        return frozenset(tool for tool in tools if canonical_tool_name(tool) in denied)

    def make_hidden_filter(self, root: Path, environment: Mapping[str, str]) -> Callable[[Path], bool]:
        """Return a function that says whether a rule denies reading a resolved path: for `context.is_hidden`."""
        rules = [rule for rule in self.settings.rules.deny if rule.tool == "Read" and rule.specifier is not None]
        here, home = str(root.resolve()), environment.get("HOME", "")
        return lambda path: any(rule.matches_path(str(path), here=here, home=home, forbids=True) for rule in rules)

    def list_rules(self) -> list[tuple[str, PermissionRule]]:
        """Return all rules with what they do, for the user to look at."""
        rules = self._rules()
        kinds = {"deny": rules.deny, "ask": rules.ask, "allow": rules.allow}
        return [(kind, rule) for kind, of_kind in kinds.items() for rule in of_kind]

    def _rules(self) -> RuleSet:
        rules = self.settings.rules
        return rules._replace(allow=(*rules.allow, *self._session_rules, *self._temporary_rules))


def _parse_valid_rule(text: str, source: str, root: Path) -> PermissionRule:
    rule = parse_rule(text, source, str(root.resolve()))
    if rule is None:
        raise UsageError(
            f"not a permission rule: `{text}`", hint="rules look like `Edit`, `Bash(npm test:*)`, `Read(~/x/**)`"
        )
    return rule


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
        names = names or [str(check.context.cwd)]
        pattern = input.get("pattern") if tool == "Glob" else None
        try:  # an absolute pattern is searched in a folder of its own
            names += [str(resolve_search(names[0], pattern, check.context)[0])] if isinstance(pattern, str) else []
        except InvalidToolCall as refused:
            return by_default("ask", f"the pattern leads nowhere: {refused}")
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
