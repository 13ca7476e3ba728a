"""Guesses whether an open tool call may be waiting for the user's approval, by permission mode and rules.

Claude Code's own rules are finer than these. What is concluded about a call from its lines alone is therefore only
probable, and nothing is allowed or refused because of it.

Rules
  1. In an automatic mode (`auto`, `bypassPermissions`, `dontAsk`) only a plan and a question ask.
  2. Tools that only read, plan or talk to agents never ask. With `acceptEdits` those that change files do not either.
  3. A rule of the settings allows a call: `Bash`, `Bash(git diff:*)`, `WebFetch(domain:example.com)`, `mcp__server`.
     An `ask` rule takes precedence. A shell command is allowed if each of its parts is.
  4. A shell command whose parts all only read does not ask.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import msgspec

from unspool.format.tools import AGENT_TOOLS, EDIT_TOOLS
from unspool.live.state.model import PLAN_TOOLS, QUESTION_TOOLS, PendingCall

AUTOMATIC_MODES = frozenset({"auto", "bypassPermissions", "dontAsk"})
_NEVER_ASK = AGENT_TOOLS | frozenset(
    {"Read", "Glob", "Grep", "LS", "NotebookRead", "LSP", "TodoWrite", "TodoRead", "TaskCreate", "TaskUpdate",
     "TaskList", "TaskGet", "TaskOutput", "TaskStop", "AgentOutputTool", "BashOutput", "KillShell",
     "KillBash", "ToolSearch", "ListMcpResourcesTool", "ReadMcpResourceTool", "EnterPlanMode", "StructuredOutput",
     "SendMessage", "ReportFindings", "ScheduleWakeup"}
)  # fmt: skip
_SHELL_TOOLS = frozenset({"Bash", "PowerShell", "Monitor"})
_READ_COMMANDS = frozenset(
    {"basename", "cal", "cat", "cd", "column", "cut", "date", "df", "diff", "dirname", "du", "echo", "egrep", "false",
     "fgrep", "file", "free", "grep", "groups", "head", "hostname", "id", "jq", "ls", "lsof", "nl", "paste", "printf",
     "ps", "pwd", "readlink", "realpath", "rg", "seq", "sort", "stat", "tail", "tr", "tree", "true", "type", "uname",
     "uniq", "uptime", "wc", "which", "whoami"}
)  # fmt: skip
_GIT_READ_COMMANDS = frozenset({"blame", "diff", "log", "ls-files", "rev-parse", "shortlog", "show", "status"})
_SEPARATORS = re.compile(r"&&|\|\||[;|\n&]")
_HIDDEN_EFFECTS = re.compile(r"[`>]|\$\(|<\(")
_RULE = re.compile(r"([^()]+)(?:\((.*)\))?", re.DOTALL)


class ApprovalRules(msgspec.Struct, frozen=True):
    """The permission rules and hooks in the settings that apply to a session."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    mode: str | None = None
    """The permission mode in which a session starts."""
    signals: frozenset[str] = frozenset()
    """The events for which our own hooks are installed."""


def may_need_approval(call: PendingCall, mode: str | None, rules: ApprovalRules) -> bool:
    """Return whether a call may be waiting for approval."""
    if call.name in QUESTION_TOOLS or call.name in PLAN_TOOLS:
        return True
    mode = mode or rules.mode
    if mode in AUTOMATIC_MODES:
        return False
    if any(_rule_matches(rule, call) for rule in rules.ask):
        return True
    if call.name in _NEVER_ASK or (mode == "acceptEdits" and call.name in EDIT_TOOLS):
        return False
    if call.name in _SHELL_TOOLS:
        return not _is_shell_allowed(call, rules)
    return not any(_rule_matches(rule, call) for rule in rules.allow)


def _is_shell_allowed(call: PendingCall, rules: ApprovalRules) -> bool:
    if any(_rule_matches(rule, call) for rule in rules.allow):
        return True
    match call.input:
        case {"command": str(command)}:
            pass
        case _:
            command = call.target
    parts = [part.strip() for part in _SEPARATORS.split(command) if part.strip()]
    parsed = (_RULE.fullmatch(rule.strip()) for rule in rules.allow)
    specs = [match[2] for match in parsed if match and match[1] == call.name and match[2]]
    # A redirection or a substitution may write, whatever the program before it does.
    is_plain = _HIDDEN_EFFECTS.search(command) is None
    return bool(parts) and all(
        any(_matches_text(spec, part) for spec in specs) or (_only_reads(part) and is_plain) for part in parts
    )


def _rule_matches(rule: str, call: PendingCall) -> bool:
    match = _RULE.fullmatch(rule.strip())
    if match is None:
        return False
    tool, spec = match[1], match[2]
    # `mcp__server` and `mcp__server__*` allow every tool of a server.
    if tool != call.name:
        is_server = tool.startswith("mcp__") and call.name.startswith(tool.removesuffix("*").rstrip("_") + "__")
        return is_server and spec is None
    if spec is None or spec == "*":
        return True
    match call.input:
        case {"command": str(command)}:
            # A rule for one command must not allow what is chained to it.
            return not _SEPARATORS.search(command) and _matches_text(spec, command.strip())
        case {"url": str(url)} if spec.startswith("domain:"):
            host = re.sub(r"^\w+://", "", url).partition("/")[0].partition(":")[0]
            return fnmatchcase(host, spec.removeprefix("domain:"))
        case {"file_path": str(path)} | {"notebook_path": str(path)}:
            return fnmatchcase(path, spec) or fnmatchcase(call.target, spec.removeprefix("./").lstrip("/"))
        case {"skill": str(skill)}:
            return _matches_text(spec, skill)
        case _:
            return False


def _matches_text(spec: str, text: str) -> bool:
    if spec.endswith(":*"):
        prefix = spec[:-2]
        return text == prefix or text.startswith(f"{prefix} ")
    return fnmatchcase(text, spec) if "*" in spec else text == spec


def _only_reads(part: str) -> bool:
    words = part.split()
    if words[0] == "git":
        return len(words) > 1 and words[1] in _GIT_READ_COMMANDS
    return words[0] in _READ_COMMANDS
