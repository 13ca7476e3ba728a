"""Finds the permission rules that would have allowed calls which waited for approval and were always approved.

Rules
  1. A rule is suggested for a command only word for word, as the user approved it at least twice: `Bash(make check)`.
     What a command may change or send is then what was approved. Commands with a variable, a substitution, a wildcard
     or a line end may be another one the next time; for them there is no rule.
  2. Outside of the folder worked in, a rule lets the files of a folder be read, if at least two reads in it were
     approved. Folders whose name begins with a dot hold settings and keys; they are left out.
  3. No rule is suggested for writing, for pages and for tools of MCP servers: it would allow more than was approved.
  4. One call that was rejected is enough to suggest nothing; so is that all of them failed.
  5. Each call is decided anew with the rule, by the package `permissions`: a rule is suggested only if it allows all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from unspool.insights.analysis.suggestion import Line, Suggestion, newest_lines
from unspool.permissions import SHELL_TOOL, CallCheck, canonical_tool_name, decide_call, parse_rule, split_rules

MIN_APPROVALS: Final = 2
_CHANGING: Final = frozenset("$`*?\n\r\0")
"""Characters of a command that may mean something else the next time, or in a rule."""
_READ_TOOLS: Final = frozenset({"Read", "Glob", "Grep", "LS"})


class AskedCall(NamedTuple):
    """A call that the permission rules ask about."""

    tool: str
    input: Mapping[str, Any]
    check: CallCheck
    """The rules that hold where it was made."""
    rejected: bool
    failed: bool
    """Whether it ran, and failed."""
    milliseconds: int
    """From the call to its result: the wait, and the run."""
    ran: int | None
    """Milliseconds that the tool ran, where the result says so."""
    line: Line

    @property
    def key(self) -> tuple[str, str, str]:
        """What is the same in calls that one rule would allow: the folder, the tool, and the command or folder."""
        return self.check.paths.root, self.tool, _rule_text(self) or ""


def asks(check: CallCheck, tool: str, input: Mapping[str, Any]) -> bool:
    """Return whether the rules ask about a call."""
    return decide_call(check, tool, dict(input))[0].behaviour == "ask"


def suggest_rules(calls: Sequence[AskedCall]) -> list[Suggestion]:
    """Return the rules that are worth allowing."""
    groups: dict[tuple[str, str, str], list[AskedCall]] = {}
    for call in calls:
        groups.setdefault(call.key, []).append(call)
    return [
        _make_suggestion(rule, root, group)
        for (root, _, rule), group in groups.items()
        if rule and len(group) >= MIN_APPROVALS and _always_allowed(rule, group)
    ]


def _always_allowed(rule: str, group: Sequence[AskedCall]) -> bool:
    """Return whether all calls were approved, one of them succeeded, and a rule allows each of them."""
    if any(call.rejected for call in group) or all(call.failed for call in group):
        return False
    for call in group:
        texts = split_rules(rule)
        rules = [parse_rule(text, "local", call.check.paths.root) for text in texts]
        added = [one for one in rules if one is not None]
        if not added or len(added) < len(texts):
            return False
        if decide_call(call.check.with_allowed(added), call.tool, dict(call.input))[0].behaviour != "allow":
            return False
    return True


def _rule_text(call: AskedCall) -> str | None:
    """Return the narrowest rule that may be offered for a call."""
    tool = canonical_tool_name(call.tool)
    if tool == SHELL_TOOL:
        command = call.input.get("command")
        if not isinstance(command, str) or not command.strip() or _CHANGING & set(command):
            return None
        # `:*` at the end is how a rule says that more words may follow.
        return None if command.strip().endswith(":") else f"{SHELL_TOOL}({command.strip()})"
    if tool not in _READ_TOOLS:
        return None
    suggestions = decide_call(call.check, tool, dict(call.input))[0].suggestions
    rule = next((one for one in suggestions if one.startswith("Read(")), None)
    return None if rule is None or "/." in rule or "(~" in rule else rule


def _make_suggestion(rule: str, root: str, group: Sequence[AskedCall]) -> Suggestion:
    waited = sum(call.milliseconds - (call.ran or 0) for call in group)
    return Suggestion(
        kind="permission",
        action=f"Allow it in `.claude/settings.local.json`: it was asked about {len(group)} times and always approved.",
        text=rule,
        project=root,
        saved={"approvals": len(group), "milliseconds_at_most": waited},
        computed="the approvals that today's rules ask for and this one would not. The time is that from the calls to "
        "their results; it includes the run, unless the result has its length",
        lines=newest_lines([call.line for call in group]),
        evidence=len(group),
    )
