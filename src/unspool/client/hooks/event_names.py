"""Lists the events of hooks: those that hooks are called for here, and why others of Claude Code never happen.

Compared with the events that Claude Code 2.1.327 accepts in its settings.
"""

from __future__ import annotations

EVENTS = (
    "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "UserPromptSubmit", "UserPromptExpansion",
    "SessionStart", "SessionEnd", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact",
    "Notification", "PermissionRequest", "CwdChanged", "InstructionsLoaded",
)  # fmt: skip
"""The events that hooks are called for."""
GUARD_EVENTS = frozenset({"PreToolUse", "PermissionRequest"})
"""The events whose hooks deny a tool call if they give no answer."""
JUDGED_EVENTS = frozenset(
    {
        "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "UserPromptSubmit", "UserPromptExpansion",
        "Stop", "SubagentStop", "PermissionRequest",
    }
)  # fmt: skip
"""The events whose hooks may be judged by a model: for others Claude Code refuses it too."""
_NO_TEAMS = "chat has no teams of agents"
_NO_WORKTREES = "chat makes no worktrees"
_ABSENT = {
    "Setup": "chat has no flags for setup or maintenance",
    "PreModelSwitch": "chat does not report changes of the model",
    "PostModelSwitch": "chat does not report changes of the model",
    "PermissionDenied": "chat has no classifier that denies calls",
    "TeammateIdle": _NO_TEAMS,
    "TaskCreated": _NO_TEAMS,
    "TaskCompleted": _NO_TEAMS,
    "Elicitation": "only you answer the questions of MCP servers",
    "ElicitationResult": "only you answer the questions of MCP servers",
    "ConfigChange": "settings are read once, when the chat is opened",
    "WorktreeCreate": _NO_WORKTREES,
    "WorktreeRemove": _NO_WORKTREES,
    "FileChanged": "chat watches no files",
    "DirectoryAdded": "folders are added only when the chat is opened",
    "MessageDisplay": "chat shows answers while they stream, and hooks cannot change that",
}


def why_absent(event: object) -> str:
    """Return why hooks for an event are never called."""
    return _ABSENT.get(str(event), "there is no such event")
