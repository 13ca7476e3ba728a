"""Says whether an open tool call may be waiting for the user's approval, as the permission check rules on it.

The check (`permissions/decide.py`) is the one that our own client obeys. Here it sees no disk: links, programs in the
workspace and the matches of globs are not known. What is concluded about a call from its lines alone is therefore only
probable, and nothing is allowed or refused because of it.

Rules
  1. A question and a plan always ask. All else waits if the check would ask; what it denies is refused at once.
  2. The folder counts as trusted: Claude Code runs in it.
"""

from __future__ import annotations

import msgspec

from unspool.live.state.model import PLAN_TOOLS, QUESTION_TOOLS, PendingCall
from unspool.permissions import CallCheck, EffectiveSettings, WorkspacePaths, decide_call

_AUTOMATIC_MODE = "auto"
"""A mode of Claude Code in which a model decides in the user's place."""
_NEVER_ASK = frozenset(
    {"LSP", "ToolSearch", "ListMcpResourcesTool", "ReadMcpResourceTool", "StructuredOutput", "SendMessage",
     "ReportFindings", "ScheduleWakeup"}
)  # fmt: skip
"""Tools of Claude Code that need no permission and that our client does not have."""


class ApprovalRules(msgspec.Struct, frozen=True):
    """The settings and hooks that apply to a session, and the folders that its calls are made in."""

    settings: EffectiveSettings = EffectiveSettings()
    signals: frozenset[str] = frozenset()
    """The events for which our own hooks are installed."""
    root: str = "/"
    """The folder that the session works in; if that is not known, every path counts as inside."""
    home: str = ""
    config: str = ""
    results: str = ""
    """The folder of the project's sessions, which holds the results that were too large for a line."""


def may_need_approval(call: PendingCall, mode: str | None, rules: ApprovalRules) -> bool:
    """Return whether a call may be waiting for approval."""
    if call.name in QUESTION_TOOLS or call.name in PLAN_TOOLS:
        return True
    check = make_call_check(call.name, mode, rules)
    if check is None:
        return False
    tool = "Bash" if call.name == "Monitor" else call.name  # it runs a command, by the same rules
    return decide_call(check, tool, call.input if isinstance(call.input, dict) else {})[0].behaviour == "ask"


def make_call_check(tool: str, mode: str | None, rules: ApprovalRules) -> CallCheck | None:
    """Return the check of a tool's calls in a mode; None where nobody is asked about them."""
    settings = rules.settings
    mode = mode or settings.mode or "default"
    if mode == _AUTOMATIC_MODE or tool in _NEVER_ASK:
        return None
    paths = WorkspacePaths(
        rules.root,
        added=settings.added,
        environment={"HOME": rules.home},
        config=rules.config,
        results=rules.results,
    )
    mode = "default" if settings.mode_problem(mode) else mode
    return CallCheck(settings.rules, paths, mode=mode, trusted=True)
