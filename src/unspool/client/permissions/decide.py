"""Whether a call may be made: a tool and its input in, a ruling out. `Permissions` holds the rules of a conversation.

Rules
  1. Deny goes before ask, ask before allow, whatever the mode; then the mode speaks, then what is built in.
  2. What no rule and no mode speaks of is asked. Where nobody is to be asked (`dontAsk`), it is denied.
  3. Only rules allow. What stands in files, results or prompts is never looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from unspool.client.permissions import shell_decide
from unspool.client.permissions.file_access import Book, Hearing, built_in, by_mode, by_rule
from unspool.client.permissions.paths import searched
from unspool.client.permissions.settings import Loaded, add_local_rule
from unspool.client.protocols import Ruling
from unspool.client.tool_context import Desk
from unspool.client.tools.base import BadCall
from unspool.errors import Usage
from unspool.permissions.rules import (
    EDITS,
    READS,
    SHELL,
    Rule,
    host,
    matches_host,
    matches_name,
    matches_path,
    parsed,
    plain_name,
    separated,
)

Json: TypeAlias = dict[str, Any]
MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
_FREE = frozenset(
    {"TodoWrite", "TodoRead", "Task", "TaskOutput", "AgentOutputTool", "KillShell", "AskUserQuestion", "EnterPlanMode",
     "ExitPlanMode", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList"}
)  # fmt: skip
"""Tools that change nothing by themselves, or ask the person anyway; what agents do is judged call by call."""


class Reason(NamedTuple):
    """What is said of one part of a call."""

    part: str
    ruling: Ruling


class Permissions:
    """The rules of one conversation; agents have the same."""

    def __init__(self, loaded: Loaded | None = None, *, root: Path, trusted: bool = False) -> None:
        self.loaded = loaded or Loaded()
        self.root, self.trusted = root, trusted
        self.book = self.loaded.book
        self._session: tuple[Rule, ...] = ()
        self._lent: tuple[Rule, ...] = ()

    def judge(self, tool: str, input: Json, desk: Desk) -> Ruling:
        """Say whether a call may be made."""
        return self.reasons(tool, input, desk)[0]

    def reasons(self, tool: str, input: Json, desk: Desk) -> tuple[Ruling, list[Reason]]:
        """Say whether a call may be made, and why, part by part."""
        hearing = Hearing(self._rules(), desk, trusted=self.trusted)
        hearing.mode = "default" if self.refuses(desk.mode) else desk.mode
        tool = plain_name(tool)
        if tool == SHELL:
            command = input.get("command")
            if not isinstance(command, str):
                return built_in("ask", "its input has no command"), []
            ruling, judged = shell_decide.judge(hearing, command)
            reasons = [Reason(*one) for one in judged]
        else:
            ruling = _tool(hearing, tool, input)
            reasons = [Reason(tool, ruling)]
        if hearing.mode == "dontAsk" and ruling.behaviour == "ask":
            why = f"{ruling.why}; in `dontAsk` what is not allowed is denied"
            ruling = msgspec.structs.replace(ruling, behaviour="deny", why=why)
        return ruling, reasons

    def explain(self, tool: str, input: Json, desk: Desk) -> list[str]:
        """Return lines that say why a call is allowed, asked for or denied."""
        ruling, reasons = self.reasons(tool, input, desk)
        lines = [
            f"{ruling.behaviour}: {ruling.why}",
            f"mode: {desk.mode}; folder {'' if self.trusted else 'not '}trusted",
        ]
        lines += [f"  {one.ruling.behaviour:5}  {one.part}  ({one.ruling.why})" for one in reasons if len(reasons) > 1]
        lines += [f"rule: {ruling.rule} ({ruling.source})"] if ruling.rule else []
        lines += [f"would be allowed by: {rule}" for rule in ruling.suggestions]
        return [*lines, *(f"note: {problem}" for problem in self.loaded.problems)]

    def refuses(self, mode: str) -> str | None:
        """Return why a mode cannot be had; None if it can."""
        if mode not in MODES:
            return f"there is no mode `{mode}`; there are {', '.join(f'`{one}`' for one in MODES)}"
        if mode == "bypassPermissions" and self.loaded.no_bypass:
            return "the settings do not allow `bypassPermissions` (`disableBypassPermissionsMode`)"
        return None

    def keep(self, rule: str, where: Literal["once", "session", "local"]) -> None:
        """Allow something from now on: a rule, or several with commas between them.

        `local` also writes it to `.claude/settings.local.json`, if the folder is trusted; else it would not act.
        """
        rules = [_checked(text, "session", self.root) for text in separated(rule)]
        if where == "once":
            return
        self._session += tuple(rules)
        if where == "local" and self.trusted:
            for one in rules:
                add_local_rule(self.root, one.text)

    def lend(self, rules: Iterable[str]) -> None:
        """Allow more until `take_back`: what a custom command says in `allowed-tools`."""
        self._lent += tuple(_checked(rule, "command", self.root) for rule in rules)

    def take_back(self) -> None:
        """Forget what was lent."""
        self._lent = ()

    def removed(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools that a rule denies altogether: the model need not be told of them."""
        bare = [rule for rule in self.book.deny if rule.inside is None]
        return frozenset(tool for tool in tools if any(rule.tool == plain_name(tool) for rule in bare))

    def hider(self, desk: Desk) -> Callable[[Path], bool]:
        """Return what tells whether a rule denies reading a file, by its real path: for `desk.hides`."""
        rules = [rule for rule in self.book.deny if rule.tool == "Read" and rule.inside is not None]
        here, home = str(desk.place.root.resolve()), desk.environment.get("HOME", "")
        return lambda path: any(matches_path(rule, str(path), here=here, home=home, forbids=True) for rule in rules)

    def rules(self) -> list[tuple[str, Rule]]:
        """Return all rules with what they do, for people to look at."""
        book = self._rules()
        kinds = {"deny": book.deny, "ask": book.ask, "allow": book.allow}
        return [(kind, rule) for kind, rules in kinds.items() for rule in rules]

    def _rules(self) -> Book:
        return self.book._replace(allow=(*self.book.allow, *self._session, *self._lent))


def _checked(text: str, source: str, root: Path) -> Rule:
    rule = parsed(text, source, str(root.resolve()))
    if rule is None:
        raise Usage(
            f"not a permission rule: `{text}`", hint="rules look like `Edit`, `Bash(npm test:*)`, `Read(~/x/**)`"
        )
    return rule


def _tool(hearing: Hearing, tool: str, input: Json) -> Ruling:
    """Judge a call of a tool other than the shell."""
    if tool in READS or tool in EDITS:
        return _files(hearing, tool, input)
    if tool == "WebFetch":
        return _page(hearing, input)
    value = input.get("subagent_type") if tool == "Task" else input.get("skill", input.get("command"))

    def fits(rule: Rule) -> bool:
        return rule.inside is None or (isinstance(value, str) and matches_name(rule, value))

    if ruling := hearing.barred(tool, fits, f"`{tool}`"):
        return ruling
    if tool in _FREE:
        return built_in("allow", f"`{tool}` needs no permission")
    if hearing.mode == "plan" and tool != "WebSearch":
        return Ruling(behaviour="deny", why=f"in plan mode tools only look, and `{tool}` may do more", source="mode")
    if hearing.mode == "bypassPermissions":
        return by_mode("allow", hearing.mode)
    if rule := hearing.first("allow", tool, fits):
        return by_rule("allow", rule, f"`{tool}`")
    return built_in("ask", f"no rule allows `{tool}`", (tool,))


def _files(hearing: Hearing, tool: str, input: Json) -> Ruling:
    """Judge a call that names files: all of them, by where they really are."""
    names = [input[key] for key in ("file_path", "notebook_path", "path") if isinstance(input.get(key), str)]
    if tool in ("Glob", "Grep"):
        names = names or [str(hearing.desk.cwd)]
        pattern = input.get("pattern") if tool == "Glob" else None
        try:
            names += [str(searched(names[0], pattern, hearing.desk)[0])] if isinstance(pattern, str) else []
        except BadCall as refused:
            return built_in("ask", f"the pattern leads nowhere: {refused}")
    if not names:
        return built_in("ask", f"the input of `{tool}` names no file")
    rulings = [_file(hearing, tool, name) for name in names]
    order = {"deny": 0, "ask": 1, "allow": 2}
    return min(rulings, key=lambda ruling: order[ruling.behaviour])


def _file(hearing: Hearing, tool: str, name: str) -> Ruling:
    path = hearing.reach.real(name)
    if path is None:
        return built_in("ask", f"where `{name}` leads is not known")
    named = hearing.reach.named(name)
    return hearing.read(tool, path, named) if tool in READS else hearing.edit(tool, path, named)


def _page(hearing: Hearing, input: Json) -> Ruling:
    url = input.get("url")
    if not isinstance(url, str):
        return built_in("ask", "the input of `WebFetch` has no address")
    name = host(url)
    what = f"pages of `{name}`" if name else "this page"
    if ruling := hearing.barred("WebFetch", lambda rule: matches_host(rule, url, forbids=True), what):
        return ruling
    if hearing.mode == "bypassPermissions":
        return by_mode("allow", hearing.mode)
    if rule := hearing.first("allow", "WebFetch", lambda rule: matches_host(rule, url)):
        return by_rule("allow", rule, what)
    suggestions = (f"WebFetch(domain:{name})",) if name else ()
    return built_in("ask", f"no rule allows {what}", suggestions)
