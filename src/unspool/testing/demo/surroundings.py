"""What the program tells the model before the first word of a session: attachments, in the order it writes them.

The texts are ours, and short: the program's own system prompt is not in here.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from unspool.testing.build import Json

SYSTEM = (
    "You are the assistant of a demonstration. Nothing you are told here ever happened.",
    "Help with the code in the working folder. Say what you found, then what you changed.",
)
_TOOLS = {
    "Agent": ("Start an agent with a task of its own.", ("description", "prompt", "subagent_type")),
    "Bash": ("Run a shell command.", ("command", "description", "timeout")),
    "Edit": ("Replace a piece of a file.", ("file_path", "old_string", "new_string")),
    "Glob": ("Find files by name.", ("pattern", "path")),
    "Grep": ("Find lines in files.", ("pattern", "path", "output_mode")),
    "Read": ("Read a file.", ("file_path", "offset", "limit")),
    "Skill": ("Follow a written procedure.", ("skill", "args")),
    "TaskCreate": ("Put something on the task list.", ("subject", "description", "activeForm")),
    "TaskUpdate": ("Move a task on.", ("taskId", "status")),
    "WebSearch": ("Search the web.", ("query",)),
    "Write": ("Write a file.", ("file_path", "content")),
}
TOOLS: list[Json] = [
    {
        "name": name,
        "description": about,
        "input_schema": {
            "type": "object",
            "properties": {field: {"type": "string"} for field in fields},
            "required": [fields[0]],
        },
    }
    for name, (about, fields) in _TOOLS.items()
]

_DEFERRED = ("EnterWorktree", "ExitWorktree", "Monitor", "NotebookEdit", "WebFetch")
_AGENTS = {"Explore": "Looks around and changes nothing.", "general-purpose": "Does whatever is asked."}
_SKILLS = {"release-notes": "Write release notes from the commits.", "tide-check": "Compare a table with a gauge."}
_NAMES = {"claude-opus-5-5": "Opus 5.5", "claude-sonnet-5-5": "Sonnet 5.5", "claude-haiku-5-5": "Haiku 5.5"}


class Told(NamedTuple):
    """An attachment, how it is worded for the model and in whose name."""

    kind: str
    data: Json
    words: str | None = None
    role: str = "system"


def listings() -> list[Told]:
    """The agents and skills there are: all that versions before 2.1.290 said."""
    agents = [f"- {name}: {about}" for name, about in _AGENTS.items()]
    skills = "\n".join(f"- {name}: {about}" for name, about in _SKILLS.items())
    listing = {"addedTypes": list(_AGENTS), "addedLines": agents, "removedTypes": [], "isInitial": True}
    names = {"skillCount": len(_SKILLS), "isInitial": True, "names": list(_SKILLS)}
    digests = [hashlib.sha256(about.encode()).hexdigest()[:16] for about in _SKILLS.values()]
    return [
        Told("agent_listing_delta", listing, "Agents you can start:\n" + "\n".join(agents)),
        Told("skill_listing", {"content": skills, **names, "digests": digests}, f"Skills you can use:\n{skills}"),
    ]


def surroundings(cwd: str, branch: str, model: str, date: str) -> list[Told]:
    """All that 2.1.325 says at the start."""
    name = _NAMES[model]
    place = {
        "workingDirectory": cwd,
        "isWorktree": False,
        "isGitRepo": True,
        "additionalWorkingDirectories": [],
        "platform": "linux",
        "shell": "bash",
        "osVersion": "Linux 6.12.0",
    }
    powered = f"You are {name}, known as {model}."
    identity = {"modelId": model, "marketingName": name, "knowledgeCutoff": "June 2026"}
    deferred = {
        "addedNames": list(_DEFERRED),
        "addedLines": list(_DEFERRED),
        "removedNames": [],
        "wireHiddenNames": [],
        "readdedNames": [],
        "pendingMcpServers": [],
        "failedMcpServers": [],
    }
    git = f"Current branch: {branch}\n\nStatus:\n(clean)"
    signed = {
        "url": None,
        "commit": f"Co-Authored-By: Claude {name} <noreply@example.com>",
        "pr": "Made in a demo",
    }
    flags = {"sendUserFileHint": False, "managedCommit": False, "managedPr": False}
    snapshot = {"systemPrompt": list(SYSTEM), "reminderFold": False, "contextRendering": "announced"}
    return [
        Told("environment", {"snapshot": place}, f"You work in {cwd} on linux."),
        Told("model", {"identity": identity, "text": powered}, powered),
        Told("deferred_tools_delta", deferred, "More tools, to be searched for: " + ", ".join(_DEFERRED)),
        *listings(),
        Told("session_context", {"context": {"gitStatus": git}}, git, "user"),
        Told("date", {"date": date}, f"Today is {date}."),
        Told("remote_session_change", {**signed, **flags}, "Sign commits as shown.", "user"),
        Told("prompt_snapshot", {**snapshot, "tools": TOOLS}),
    ]
