"""The check of one call, and its decision whether a file may be read or written: by rules, mode and folders. Pure.

Rules
  1. Deny goes before ask, ask before allow, wherever the rules come from.
  2. A file is read without asking in the workspace; elsewhere a rule has to allow it by its path: a rule without a path
     (`Edit`) holds in the workspace only.
  3. A file is written without asking only by a rule, or in the workspace with `acceptEdits`; a protected one is always
     asked about, except with `bypassPermissions`. In plan mode nothing is written but the plan.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from unspool.permissions.paths import WorkspacePaths, is_below
from unspool.permissions.rules import PermissionRule, RuleSet

Behaviour: TypeAlias = Literal["allow", "deny", "ask"]
RuleMatcher: TypeAlias = Callable[[PermissionRule], bool]


class CommandAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What a command that is allowed without a rule does, as far as files and programs go."""

    programs: tuple[str, ...] = ()
    """The programs that it runs, as the command names them."""
    reads: tuple[str, ...] = ()
    """The resolved paths that it reads. Of a folder that is the names in it and below it."""
    trees: tuple[str, ...] = ()
    """The resolved paths of folders in which it also reads files that it does not name."""
    writes: tuple[str, ...] = ()
    """The resolved paths that it writes."""

    def join(self, other: CommandAccess) -> CommandAccess:
        """Return what two commands do together."""
        return CommandAccess(
            programs=(*self.programs, *other.programs),
            reads=(*self.reads, *other.reads),
            trees=(*self.trees, *other.trees),
            writes=(*self.writes, *other.writes),
        )


class RuleDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What the permission mode and the rules say of a tool call."""

    behaviour: Behaviour
    why: str
    """In words: which rule, which mode, which part of a command."""
    rule: str | None = None
    source: str | None = None
    """Where the rule stands: user, project, local, flag, session, mode, built in."""
    suggestions: tuple[str, ...] = ()
    """Rules that would allow it from now on."""
    sandbox: Literal["read", "edit"] | None = None
    """Of a command that not only rules allow: whether it only reads, or also writes in the folders worked in."""
    access: CommandAccess | None = None
    """Of a command that is allowed without a rule: what it reads, writes and runs."""


class PartDecision(NamedTuple):
    """What was decided about one part of a call."""

    part: str
    decision: RuleDecision


class CallCheck:
    """The check of one call: the rules and the mode that hold, and the folders that the call is made in."""

    def __init__(
        self, rules: RuleSet, paths: WorkspacePaths, *, mode: str, trusted: bool, rules_only: bool = False
    ) -> None:
        self.rules, self.paths, self.mode, self.trusted = rules, paths, mode, trusted
        self.rules_only = rules_only
        """Whether no command is allowed without a rule, also not one that only reads: there is no sandbox for it."""

    def with_allowed(self, added: Iterable[PermissionRule]) -> CallCheck:
        """Return the same check with more rules that allow."""
        rules = self.rules._replace(allow=(*self.rules.allow, *added))
        return CallCheck(rules, self.paths, mode=self.mode, trusted=self.trusted, rules_only=self.rules_only)

    def first_rule(self, kind: Behaviour, tool: str, matches: RuleMatcher) -> PermissionRule | None:
        """Return the first rule of a kind that is about a tool and matches."""
        rules: tuple[PermissionRule, ...] = getattr(self.rules, kind)
        for rule in rules:
            if rule.covers_tool(tool, forbids=kind != "allow") and matches(rule):
                return rule
        return None

    def check_forbidding(self, tool: str, matches: RuleMatcher, what: str) -> RuleDecision | None:
        """Return the decision of a rule that denies or asks, if one matches."""
        if rule := self.first_rule("deny", tool, matches):
            return by_rule("deny", rule, what)
        if rule := self.first_rule("ask", tool, matches):
            return by_rule("ask", rule, what)
        return None

    def matches_path(self, rule: PermissionRule, path: str, *, forbids: bool = True) -> bool:
        """Return whether a rule is about a path."""
        return rule.matches_path(path, here=self.paths.root, home=self.paths.home, forbids=forbids)

    def decide_read(self, tool: str, path: str, written: str | None = None) -> RuleDecision:
        """Decide whether a file or folder may be read; `written` is its path with links, as the call has it."""
        what = f"`{path}`"
        if decision := self.check_forbidding(tool, lambda rule: self._forbids_path(rule, path, written), what):
            return decision
        if self.mode == "bypassPermissions":
            return allow_by_mode(self.mode)
        if self.paths.is_inside(path) or self.paths.is_session_file(path):
            return by_default("allow", f"{what} is inside the folders worked in")
        for name in (tool, "Edit"):  # who may edit a file may read it
            if rule := self.first_rule("allow", name, lambda rule: self._allows_path(rule, path)):
                return by_rule("allow", rule, what)
        folder = path if self.paths.is_folder(path) else posixpath.dirname(path)
        suggestion = f"Read(/{folder}/**)".replace("//**", "/**")
        return by_default("ask", f"{what} is outside the folders worked in", (suggestion,))

    def decide_edit(self, tool: str, path: str, written: str | None = None) -> RuleDecision:
        """Decide whether a file may be written; `written` is its path with links, as the call has it."""
        what = f"`{path}`"
        if decision := self.check_forbidding(tool, lambda rule: self._forbids_path(rule, path, written), what):
            return decision
        if self.mode == "plan":
            is_plan = self.paths.is_plan_file(path)
            why = "is the plan" if is_plan else "would be written, and in plan mode nothing is but the plan"
            return RuleDecision(behaviour="allow" if is_plan else "deny", why=f"{what} {why}", source="mode")
        if self.mode == "bypassPermissions":
            return allow_by_mode(self.mode)
        if (protected := self.paths.protected_part(path)) is not None:
            return by_default("ask", f"{what} is guarded: writing to `{protected}` is always asked for")
        if self.paths.is_plan_file(path):
            return by_default("allow", f"{what} is the plan")
        if rule := self.first_rule("allow", tool, lambda rule: self._allows_path(rule, path)):
            return by_rule("allow", rule, what)
        if not self.paths.is_inside(path):
            return by_default(
                "ask", f"{what} is outside the folders worked in", (f"Edit(/{posixpath.dirname(path)}/**)",)
            )
        if self.mode == "acceptEdits":
            return allow_by_mode(self.mode)
        return by_default("ask", f"no rule allows writing {what}", (self._suggest_edit_rule(path),))

    def _suggest_edit_rule(self, path: str) -> str:
        """Return the rule that would allow edits in a file's folder."""
        folder = posixpath.dirname(path)
        if not is_below(path, self.paths.root):
            return f"Edit(/{folder}/**)"
        inner = folder[len(self.paths.root) :].strip("/")
        return f"Edit(/{inner}/**)" if inner else "Edit(/**)"

    def _allows_path(self, rule: PermissionRule, path: str) -> bool:
        return self.paths.is_inside(path) if rule.specifier is None else self.matches_path(rule, path, forbids=False)

    def _forbids_path(self, rule: PermissionRule, path: str, written: str | None) -> bool:
        # A rule may name the link or the file that it leads to: both are forbidden.
        return self.matches_path(rule, path) or (written is not None and self.matches_path(rule, written))


def by_rule(behaviour: Behaviour, rule: PermissionRule, what: str) -> RuleDecision:
    """Return the decision of a rule."""
    verb = {"allow": "allows", "ask": "asks for", "deny": "denies"}[behaviour]
    why = f"the {rule.source} rule `{rule.text}` {verb} {what}"
    return RuleDecision(behaviour=behaviour, why=why, rule=rule.text, source=rule.source)


def allow_by_mode(mode: str) -> RuleDecision:
    """Return the decision of a mode that allows the call."""
    return RuleDecision(behaviour="allow", why=f"the mode is `{mode}`", source="mode")


def by_default(behaviour: Behaviour, why: str, suggestions: tuple[str, ...] = ()) -> RuleDecision:
    """Return the decision where neither a rule nor the mode makes one."""
    return RuleDecision(behaviour=behaviour, why=why, source="built in", suggestions=suggestions)
