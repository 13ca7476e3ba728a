"""Whether a pending tool call may be waiting for a person, by permission mode and rules. Pure.

The program's own rules are more than these: what is said of a call from its lines alone is only probable.

Rules
  1. In an automatic mode nothing asks (`auto`, `bypassPermissions`, `dontAsk`), but a plan and a question do.
  2. Tools that only read, plan or talk to agents never ask. With `acceptEdits` those that change files do not either.
  3. A rule of the settings allows a call: `Bash`, `Bash(git diff:*)`, `WebFetch(domain:example.com)`, `mcp__server`.
     A rule that says `ask` goes first. A shell command is allowed if each of its parts is.
  4. A shell command of which each part only looks at things does not ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from unspool.live.model import PLAN_TOOLS, QUESTION_TOOLS, Pending

AUTOMATIC = frozenset({"auto", "bypassPermissions", "dontAsk"})
_NEVER = frozenset(
    {"Read", "Glob", "Grep", "LS", "NotebookRead", "LSP", "TodoWrite", "TodoRead", "Task", "Agent", "TaskCreate",
     "TaskUpdate", "TaskList", "TaskGet", "TaskOutput", "TaskStop", "AgentOutputTool", "BashOutput", "KillShell",
     "KillBash", "ToolSearch", "ListMcpResourcesTool", "ReadMcpResourceTool", "EnterPlanMode", "StructuredOutput",
     "SendMessage", "ReportFindings", "ScheduleWakeup"}
)  # fmt: skip
_EDITS = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
_SHELLS = frozenset({"Bash", "PowerShell", "Monitor"})
_LOOKS = frozenset(
    {"basename", "cal", "cat", "cd", "column", "cut", "date", "df", "diff", "dirname", "du", "echo", "egrep", "false",
     "fgrep", "file", "free", "grep", "groups", "head", "hostname", "id", "jq", "ls", "lsof", "nl", "paste", "printf",
     "ps", "pwd", "readlink", "realpath", "rg", "seq", "sort", "stat", "tail", "tr", "tree", "true", "type", "uname",
     "uniq", "uptime", "wc", "which", "whoami"}
)  # fmt: skip
_GIT_LOOKS = frozenset({"blame", "diff", "log", "ls-files", "rev-parse", "shortlog", "show", "status"})
_PARTS = re.compile(r"&&|\|\||[;|\n&]")
_HIDES = re.compile(r"[`>]|\$\(|<\(")
_RULE = re.compile(r"([^()]+)(?:\((.*)\))?", re.DOTALL)


class Rules(msgspec.Struct, frozen=True):
    """What the settings say."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    mode: str | None = None
    """The mode a session begins in."""
    signals: frozenset[str] = frozenset()
    """The events that our own hooks tell of."""


def may_ask(call: Pending, mode: str | None, rules: Rules) -> bool:
    """Tell whether a call may be waiting for permission."""
    if call.name in QUESTION_TOOLS or call.name in PLAN_TOOLS:
        return True
    mode = mode or rules.mode
    if mode in AUTOMATIC:
        return False
    if any(_matches(rule, call) for rule in rules.ask):
        return True
    if call.name in _NEVER or (mode == "acceptEdits" and call.name in _EDITS):
        return False
    if call.name in _SHELLS:
        return not _shell_is_allowed(_command(call), call, rules)
    return not any(_matches(rule, call) for rule in rules.allow)


def _command(call: Pending) -> str:
    match call.input:
        case {"command": str(command)}:
            return command
        case _:
            return call.target


def _shell_is_allowed(command: str, call: Pending, rules: Rules) -> bool:
    if any(_matches(rule, call) for rule in rules.allow):
        return True
    parts = [part.strip() for part in _PARTS.split(command) if part.strip()]
    specs = [spec for spec in _specs(call.name, rules.allow) if spec]
    hides = _HIDES.search(command) is not None
    return bool(parts) and all(
        any(_fits(spec, part) for spec in specs) or (_only_looks(part) and not hides) for part in parts
    )


def _specs(tool: str, rules: Iterable[str]) -> list[str]:
    found = [match for rule in rules if (match := _RULE.fullmatch(rule.strip()))]
    return [match[2] or "" for match in found if match[1] == tool]


def _matches(rule: str, call: Pending) -> bool:
    match = _RULE.fullmatch(rule.strip())
    if match is None:
        return False
    tool, spec = match[1], match[2]
    if tool != call.name:
        is_server = tool.startswith("mcp__") and call.name.startswith(tool.removesuffix("*").rstrip("_") + "__")
        return is_server and spec is None
    if spec is None or spec == "*":
        return True
    match call.input:
        case {"command": str(command)}:
            return not _PARTS.search(command) and _fits(spec, command.strip())
        case {"url": str(url)} if spec.startswith("domain:"):
            host = re.sub(r"^\w+://", "", url).partition("/")[0].partition(":")[0]
            return fnmatchcase(host, spec.removeprefix("domain:"))
        case {"file_path": str(path)} | {"notebook_path": str(path)}:
            return fnmatchcase(path, spec) or fnmatchcase(call.target, spec.removeprefix("./").lstrip("/"))
        case {"skill": str(skill)}:
            return _fits(spec, skill)
        case _:
            return False


def _fits(spec: str, text: str) -> bool:
    if spec.endswith(":*"):
        start = spec[:-2]
        return text == start or text.startswith(f"{start} ")
    return fnmatchcase(text, spec) if "*" in spec else text == spec


def _only_looks(part: str) -> bool:
    words = part.split()
    if words[0] == "git":
        return len(words) > 1 and words[1] in _GIT_LOOKS
    return words[0] in _LOOKS
