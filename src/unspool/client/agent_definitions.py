"""Agents that can be sent: the ones built in, and definitions in `.claude/agents/*.md`, the user's and the project's.

Rules
  1. The project's go before the user's, and both before those built in. The project's act only in a trusted folder.
  2. A file that is broken, or leads out of its folder, is a problem that is said. The others are there all the same.
  3. An agent has no tool that asks the person or leaves plan mode: nobody talks to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

from unspool.client.prompt.front_matter import items, parted
from unspool.client.tools.base import Tool
from unspool.errors import UnspoolError
from unspool.files.open import read_whole

_LARGEST = 256 * 1024
_NAME = re.compile(r"[A-Za-z0-9][\w.:-]{0,63}", re.ASCII)
_NOT_FOR_AGENTS = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"})
_CHANGING = ("Write", "Edit", "NotebookEdit", "Task", "Agent", "TodoWrite")
_AnyTool = TypeVar("_AnyTool", bound=Tool)

_MANNERS = (
    "Nobody can answer you: decide, and say what you assumed. Your last message is all that whoever sent you gets to "
    "see: put into it what was asked for, with absolute paths and line numbers, and nothing else."
)


class Agent(NamedTuple):
    """An agent that can be sent."""

    name: str
    description: str
    """When to send it; for the model."""
    prompt: str
    """Its system prompt."""
    source: str = "built in"
    """Else user or project."""
    path: Path | None = None
    tools: tuple[str, ...] | None = None
    """The tools it has; None: all."""
    disallowed: tuple[str, ...] = ()
    model: str | None = None
    """None: that of whoever sends it."""


class Agents(NamedTuple):
    """All of them, by name."""

    agents: dict[str, Agent]
    problems: tuple[str, ...] = ()


BUILT_IN = (
    Agent(
        "general-purpose",
        "Researches, and does work of several steps.",
        f"You are an agent that was sent to do one thing. Do all of it, and no more. {_MANNERS}",
    ),
    Agent(
        "Explore",
        "Finds out how something works or where it is; changes nothing.",
        "You are an agent that was sent to find something out about a code base. Change nothing: no file, no "
        "repository, nothing that is running. Search widely, several things at once, then read what matters. "
        f"{_MANNERS}",
        disallowed=_CHANGING,
    ),
    Agent(
        "Plan",
        "Designs how to do something; changes nothing.",
        "You are an agent that was sent to design a change. Change nothing. Read what is there, find what can be "
        "used again, weigh the ways there are, and give a plan in steps, with the files that matter most to it. "
        f"{_MANNERS}",
        disallowed=_CHANGING,
    ),
)


def agents(config: Path, root: Path, *, trusted: bool) -> Agents:
    """Return the agents that can be sent."""
    found = {agent.name: agent for agent in BUILT_IN}
    problems: list[str] = []
    places = [("user", config / "agents"), *([("project", root / ".claude" / "agents")] if trusted else [])]
    for source, folder in places:
        for path in sorted(folder.rglob("*.md")):
            agent = _read(path, folder, source)
            if isinstance(agent, Agent):
                found[agent.name] = agent
            else:
                problems.append(agent)
    return Agents(found, tuple(problems))


def tools_of(agent: Agent, tools: Iterable[_AnyTool]) -> tuple[_AnyTool, ...]:
    """Return the tools that an agent has, of those there are."""
    has_all = agent.tools is None or "*" in agent.tools
    without = _NOT_FOR_AGENTS | {*agent.disallowed}
    return tuple(
        tool
        for tool in tools
        if tool.name not in without and (has_all or (agent.tools is not None and tool.name in agent.tools))
    )


def _read(path: Path, folder: Path, source: str) -> Agent | str:
    """Return the agent that a file defines, or what is wrong with it."""
    try:
        real = path.resolve()
        if source == "project" and not real.is_relative_to(folder.resolve()):
            return f"the agent `{path}` leads out of its folder"
        fields, body = parted(read_whole(real, _LARGEST).decode())
    except (UnspoolError, OSError, RuntimeError, UnicodeDecodeError):
        return f"cannot read the agent `{path}`"
    name = fields.get("name", "")
    if not _NAME.fullmatch(name):
        return f"the agent `{path}` has no `name`" if not name else f"no name for an agent: `{name}` in `{path}`"
    if not fields.get("description"):
        return f"the agent `{path}` has no `description`"
    if not body:
        return f"the agent `{path}` has no text: what should it do?"
    model = fields.get("model", "inherit")
    return Agent(
        name=name,
        description=fields["description"],
        prompt=body,
        source=source,
        path=path,
        tools=items(fields["tools"]) if fields.get("tools") else None,
        disallowed=items(fields.get("disallowedTools", "")),
        model=None if model == "inherit" else model,
    )
