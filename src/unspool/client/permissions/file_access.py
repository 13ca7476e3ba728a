"""One call that is judged: the rules there are, the desk it is made at, and what they say of reading and writing.

Rules
  1. Deny goes before ask, ask before allow, wherever the rules stand.
  2. A file is read without asking where the session works; elsewhere a rule has to allow it, by its path: one without a
     path (`Edit`) holds where the session works.
  3. A file is written without asking only by a rule, or inside with `acceptEdits`; a guarded one always asks, but where
     nothing does (`bypassPermissions`). In plan mode nothing is written but the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from unspool.client.permissions.paths import Reach
from unspool.client.protocols import Ruling
from unspool.client.tool_context import Desk
from unspool.permissions.rules import Rule, covers_tool, matches_path


class Book(NamedTuple):
    """The rules of a session."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()


class Hearing:
    """Who is asked, and at which desk."""

    def __init__(self, book: Book, desk: Desk, *, trusted: bool) -> None:
        self.book, self.desk, self.trusted = book, desk, trusted
        self.reach = Reach(desk)
        self.mode = desk.mode

    def first(self, kind: Literal["allow", "ask", "deny"], tool: str, fits: Callable[[Rule], bool]) -> Rule | None:
        """Return the first rule of a kind that is about a tool, and fits."""
        forbids = kind != "allow"
        rules = getattr(self.book, kind)
        return next((rule for rule in rules if covers_tool(rule, tool, forbids=forbids) and fits(rule)), None)

    def barred(self, tool: str, fits: Callable[[Rule], bool], what: str) -> Ruling | None:
        """Return what a rule that denies or asks says, if one does."""
        if rule := self.first("deny", tool, fits):
            return by_rule("deny", rule, what)
        if rule := self.first("ask", tool, fits):
            return by_rule("ask", rule, what)
        return None

    def is_about(self, rule: Rule, path: Path, *, forbids: bool = True) -> bool:
        """Tell whether a rule is about a path."""
        here = str(self.reach.root)
        return matches_path(rule, str(path), here=here, home=self.reach.home, forbids=forbids)

    def read(self, tool: str, path: Path, named: Path | None = None) -> Ruling:
        """Say whether a file or folder may be read."""
        what = f"`{path}`"
        if ruling := self.barred(tool, lambda rule: self._is_barred(rule, path, named), what):
            return ruling
        if self.mode == "bypassPermissions":
            return by_mode("allow", self.mode)
        if self.reach.is_inside(path) or self.reach.is_own(path):
            return built_in("allow", f"{what} is inside the folders worked in")
        for kind in (tool, "Edit"):
            if rule := self.first("allow", kind, lambda rule: self._is_allowed(rule, path)):
                return by_rule("allow", rule, what)
        suggestion = f"Read(/{path if path.is_dir() else path.parent}/**)".replace("//**", "/**")
        return built_in("ask", f"{what} is outside the folders worked in", (suggestion,))

    def edit(self, tool: str, path: Path, named: Path | None = None) -> Ruling:
        """Say whether a file may be written."""
        what = f"`{path}`"
        if ruling := self.barred(tool, lambda rule: self._is_barred(rule, path, named), what):
            return ruling
        if self.mode == "plan":
            is_plan = self.reach.is_plan(path)
            why = "is the plan" if is_plan else "would be written, and in plan mode nothing is but the plan"
            return Ruling(behaviour="allow" if is_plan else "deny", why=f"{what} {why}", source="mode")
        if self.mode == "bypassPermissions":
            return by_mode("allow", self.mode)
        if (guarded := self.reach.guarded(path)) is not None:
            return built_in("ask", f"{what} is guarded: writing to `{guarded}` is always asked for")
        if self.reach.is_plan(path):
            return built_in("allow", f"{what} is the plan")
        if rule := self.first("allow", tool, lambda rule: self._is_allowed(rule, path)):
            return by_rule("allow", rule, what)
        if not self.reach.is_inside(path):
            return built_in("ask", f"{what} is outside the folders worked in", (f"Edit(/{path.parent}/**)",))
        if self.mode == "acceptEdits":
            return by_mode("allow", self.mode)
        return built_in("ask", f"no rule allows writing {what}", (self._edit_rule(path),))

    def _edit_rule(self, path: Path) -> str:
        """Return the rule that allows edits in a file's folder."""
        if not path.is_relative_to(self.reach.root):
            return f"Edit(/{path.parent}/**)"
        folder = path.parent.relative_to(self.reach.root)
        return "Edit(/**)" if folder == Path() else f"Edit(/{folder}/**)"

    def _is_allowed(self, rule: Rule, path: Path) -> bool:
        return self.reach.is_inside(path) if rule.inside is None else self.is_about(rule, path, forbids=False)

    def _is_barred(self, rule: Rule, path: Path, named: Path | None) -> bool:
        return self.is_about(rule, path) or (named is not None and self.is_about(rule, named))


def by_rule(behaviour: Literal["allow", "ask", "deny"], rule: Rule, what: str) -> Ruling:
    """Return what a rule says."""
    verb = {"allow": "allows", "ask": "asks for", "deny": "denies"}[behaviour]
    why = f"the {rule.source} rule `{rule.text}` {verb} {what}"
    return Ruling(behaviour=behaviour, why=why, rule=rule.text, source=rule.source)


def by_mode(behaviour: Literal["allow", "ask", "deny"], mode: str) -> Ruling:
    """Return what the mode says."""
    return Ruling(behaviour=behaviour, why=f"the mode is `{mode}`", source="mode")


def built_in(behaviour: Literal["allow", "ask", "deny"], why: str, suggestions: tuple[str, ...] = ()) -> Ruling:
    """Return what holds where no rule says anything."""
    return Ruling(behaviour=behaviour, why=why, source="built in", suggestions=suggestions)
