"""The permission rules of a chat: decides whether a tool call may be made, explains why, and keeps new rules.

Rules
  1. Only rules allow. The contents of files, results and prompts are never looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from unspool.client.permissions.paths import PathsOnDisk
from unspool.client.permissions.settings import add_local_rule
from unspool.client.tool_context import ToolContext
from unspool.errors import UsageError
from unspool.permissions import (
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
        mode = "default" if self.settings.mode_problem(context.mode) else context.mode
        return decide_call(CallCheck(self._rules(), PathsOnDisk(context), mode=mode, trusted=self.trusted), tool, input)

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
