"""The permission rules of a chat: decides whether a tool call may be made, explains why, and keeps new rules.

Rules
  1. Only rules allow. The contents of files, results and prompts are never looked at here.
  2. A rule that is kept as sandboxed allows a command only if the command runs in the sandbox: not where none works,
     and not if the command is to run outside of it.
  3. A resource of an MCP server is read without asking, as in Claude Code 2.1.327. But a rule that denies the server,
     or asks about it, holds for its resources too; there it holds for tools only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from unspool.client.command_sandbox import CommandSandbox
from unspool.client.permissions.kept_rules import FolderRules, KeptRules
from unspool.client.permissions.paths import PathsOnDisk
from unspool.client.permissions.settings import add_local_rule, local_settings_file
from unspool.client.tool import normalize_name
from unspool.client.tool_context import ToolContext
from unspool.errors import UsageError
from unspool.permissions import (
    SHELL_TOOL,
    CallCheck,
    EffectiveSettings,
    PartDecision,
    PermissionRule,
    RuleDecision,
    RuleSet,
    canonical_tool_name,
    decide_call,
    parse_rule,
    split_rules,
)

Json: TypeAlias = dict[str, Any]


class PermissionPolicy:
    """The permission rules of one session; its agents have the same."""

    def __init__(
        self,
        settings: EffectiveSettings | None = None,
        *,
        root: Path,
        trusted: bool = False,
        sandbox: CommandSandbox | None = None,
        kept: KeptRules | None = None,
    ) -> None:
        self.settings = settings or EffectiveSettings()
        self.root, self.trusted, self.sandbox = root, trusted, sandbox
        self._kept = kept
        of_folder = kept.read(root) if kept is not None else FolderRules()
        self._kept_rules = self._parse_kept(of_folder.allow)
        self._sandboxed_rules = self._parse_kept(of_folder.sandboxed)
        """Rules whose commands run in the sandbox."""
        self._session_rules: tuple[PermissionRule, ...] = ()
        self._temporary_rules: tuple[PermissionRule, ...] = ()
        self._skill_rules: tuple[PermissionRule, ...] = ()

    def judge(self, tool: str, input: Json, context: ToolContext) -> RuleDecision:
        """Decide whether a call may be made."""
        return self._decide(tool, input, context)[0]

    def _rule_about_server(self, tool: str, input: Json) -> RuleDecision | None:
        """Return the decision of a rule about the MCP server that a resource is of; None if there is none."""
        if tool != "ReadMcpResourceTool":
            return None
        server = f"mcp__{normalize_name(str(input.get('server', '')))}__"
        kinds: tuple[tuple[Literal["deny", "ask"], Iterable[PermissionRule]], ...] = (
            ("deny", self.settings.rules.deny),
            ("ask", self.settings.rules.ask),
        )
        for behaviour, rules in kinds:
            for rule in rules:
                if rule.specifier is None and rule.tool.startswith("mcp__") and rule.covers_tool(server, forbids=True):
                    why = f"the rule `{rule.text}` is about its server"
                    return RuleDecision(behaviour=behaviour, why=why, rule=rule.text, source=rule.source)
        return None

    def _decide(self, tool: str, input: Json, context: ToolContext) -> tuple[RuleDecision, list[PartDecision]]:
        # A mode that the settings forbid does not act, however it got into the context.
        mode = "default" if self.settings.mode_problem(context.mode) else context.mode
        check = CallCheck(self._rules(), PathsOnDisk(context), mode=mode, trusted=self.trusted)
        decision, parts = decide_call(check, tool, input)
        if decision.behaviour == "allow" and (ruled := self._rule_about_server(tool, input)) is not None:
            return (msgspec.structs.replace(ruled, behaviour="deny") if mode == "dontAsk" else ruled), parts
        if decision.behaviour == "allow":
            why = self._sandbox_problem(input) if decision.sandbox is not None else None
            return (decision, parts) if why is None else self._decide_by_rules_alone(check, decision, why, input)
        if self._sandboxed_rules and tool == SHELL_TOOL and self.can_sandbox(tool, input):
            wider, wider_parts = decide_call(check.with_allowed(self._sandboxed_rules), tool, input)
            if wider.behaviour == "allow":
                return msgspec.structs.replace(wider, sandbox="edit"), wider_parts
        return decision, parts

    def _decide_by_rules_alone(
        self, check: CallCheck, decision: RuleDecision, why: str, input: Json
    ) -> tuple[RuleDecision, list[PartDecision]]:
        """Decide on a command that needs no rule in the sandbox, and cannot run in it for the reason `why`."""
        strict = CallCheck(check.rules, check.paths, mode=check.mode, trusted=check.trusted, rules_only=True)
        ruled, parts = decide_call(strict, SHELL_TOOL, input)
        if check.mode != "plan" and ruled.behaviour == "allow" and ruled.sandbox is None:
            return ruled, parts
        behaviour: Literal["ask", "deny"] = "deny" if check.mode in ("plan", "dontAsk") else "ask"
        suggestions = ruled.suggestions if behaviour == "ask" else ()
        changed = msgspec.structs.replace(decision, behaviour=behaviour, why=why, sandbox=None, suggestions=suggestions)
        return changed, parts

    def can_sandbox(self, tool: str, input: Json) -> bool:
        """Return whether a call is a command that can run in the sandbox."""
        if tool != SHELL_TOOL or self.sandbox is None or self.sandbox.mode == "off":
            return False
        return self._sandbox_problem(input) is None

    def _sandbox_problem(self, input: Json) -> str | None:
        """Return why a command that nobody approved cannot run; None if it can."""
        if self.sandbox is None:
            return None
        if input.get("dangerouslyDisableSandbox") is True and self.sandbox.mode != "off":
            return "it would run outside the sandbox"
        return self.sandbox.problem

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

    def keep(self, rule: str, where: Literal["once", "session", "local"], *, sandboxed: bool = False) -> None:
        """Allow something from now on: a rule, or several with commas between them.

        `local` also writes it to the file that `rule_file` returns. The rule holds in this session if that fails.
        """
        rules = [_parse_valid_rule(text, "session", self.root) for text in split_rules(rule)]
        if where == "once":
            return
        if sandboxed:
            self._sandboxed_rules += tuple(rules)
        else:
            self._session_rules += tuple(rules)
        if where != "local" or self.rule_file(sandboxed=sandboxed) is None:
            return
        if self._kept is not None and (sandboxed or not self.trusted):
            self._kept.add(self.root, [added.text for added in rules], sandboxed=sandboxed)
        else:
            for added in rules:
                add_local_rule(self.root, added.text)

    def rule_file(self, *, sandboxed: bool = False) -> Path | None:
        """Return the file that a rule is written to, if it is kept for good; None if there is none.

        In a trusted folder that is its `.claude/settings.local.json`, which Claude Code reads too. Settings of a folder
        that is not trusted do not act, and Claude Code would run the commands of a sandboxed rule without a sandbox:
        such rules go to a file of unspool's own.
        """
        if self.trusted and not sandboxed:
            return local_settings_file(self.root)
        return self._kept.path if self._kept is not None else None

    def allow_temporarily(self, rules: Iterable[str]) -> None:
        """Allow more until `end_temporary_rules`: what a custom command says in `allowed-tools`."""
        self._temporary_rules += tuple(_parse_valid_rule(rule, "command", self.root) for rule in rules)

    def allow_skills(self, names: Iterable[str]) -> None:
        """Allow skills for the whole session, where no rule forbids them."""
        self._skill_rules = tuple(_parse_valid_rule(f"Skill({name})", "skill", self.root) for name in names)

    def end_temporary_rules(self) -> None:
        """Drop the rules of `allow_temporarily`."""
        self._temporary_rules = ()

    def denied_tools(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools that a rule denies altogether: the model need not be offered them."""
        denied = {rule.tool for rule in self.settings.rules.deny if rule.specifier is None}
        return frozenset(tool for tool in tools if canonical_tool_name(tool) in denied)

    def is_denied(self, tool: str) -> bool:
        """Return whether a rule denies all calls of a tool of an MCP server, or of the whole server."""
        return any(rule.specifier is None and rule.covers_tool(tool, forbids=True) for rule in self.settings.rules.deny)

    def make_hidden_filter(self, root: Path, environment: Mapping[str, str]) -> Callable[[Path], bool]:
        """Return a function that says whether a rule denies reading a resolved path: for `context.is_hidden`."""
        rules = [rule for rule in self.settings.rules.deny if rule.tool == "Read" and rule.specifier is not None]
        here, home = str(root.resolve()), environment.get("HOME", "")
        return lambda path: any(rule.matches_path(str(path), here=here, home=home, forbids=True) for rule in rules)

    def list_rules(self) -> list[tuple[str, PermissionRule]]:
        """Return all rules with what they do, for the user to look at."""
        rules = self._rules()
        kinds = {"deny": rules.deny, "ask": rules.ask, "allow": rules.allow, "sandboxed": self._sandboxed_rules}
        return [(kind, rule) for kind, of_kind in kinds.items() for rule in of_kind]

    def _rules(self) -> RuleSet:
        rules = self.settings.rules
        allow = (*rules.allow, *self._kept_rules, *self._session_rules, *self._skill_rules, *self._temporary_rules)
        return rules._replace(allow=allow)

    def _parse_kept(self, texts: list[str]) -> tuple[PermissionRule, ...]:
        rules = (parse_rule(text, "kept", str(self.root.resolve())) for text in texts)
        return tuple(rule for rule in rules if rule is not None)


def _parse_valid_rule(text: str, source: str, root: Path) -> PermissionRule:
    rule = parse_rule(text, source, str(root.resolve()))
    if rule is None:
        raise UsageError(
            f"invalid permission rule `{text}`", hint="write a rule like `Edit`, `Bash(npm test:*)` or `Read(~/x/**)`"
        )
    return rule
