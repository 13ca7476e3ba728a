"""Loads the definitions of subagents: those built in, and `.claude/agents/*.md` of the user and of the project.

Rules
  1. The project's go before the user's, and both before those built in. The project's act only in a trusted folder.
  2. A file that is broken, or leads out of its folder, is reported. The others are loaded all the same.
  3. A subagent has no tool that asks the user or leaves plan mode: nobody talks to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from unspool.client.prompt.definition_files import DefinitionFile, Definitions, Plugin, load_definitions
from unspool.client.prompt.text.markdown import parse_list
from unspool.client.tool import Tool
from unspool.errors import Unreadable, UsageError
from unspool.format.tools import AGENT_TOOLS, EDIT_TOOLS

_NAME = re.compile(r"[A-Za-z0-9][\w.:-]{0,63}", re.ASCII)
_NEEDS_USER = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"})
_CHANGING_TOOLS = (*sorted(EDIT_TOOLS | AGENT_TOOLS), "TodoWrite")
_AGENT_FIELDS = frozenset({"description", "prompt", "tools", "disallowedTools", "model", "maxTurns"})
"""What a program may say of an agent that it defines."""
_AnyTool = TypeVar("_AnyTool", bound=Tool)

_COMMON_PROMPT = (
    "Nobody can answer you: decide, and say what you assumed. Your last message is all that whoever sent you gets to "
    "see: put into it what was asked for, with absolute paths and line numbers, and nothing else."
)


class AgentDefinition(NamedTuple):
    """A kind of subagent."""

    name: str
    description: str
    """When to start it; for the model."""
    prompt: str
    """Its system prompt."""
    source: str = "built in"
    """Or user, project, plugin, program."""
    path: Path | None = None
    tools: tuple[str, ...] | None = None
    """The tools it has; None: all."""
    disallowed: tuple[str, ...] = ()
    model: str | None = None
    """None: that of its parent."""
    max_steps: int | None = None
    """How many requests it may make; None: no limit."""


BUILT_IN_AGENTS = (
    AgentDefinition(
        "general-purpose",
        "Researches, and does work of several steps.",
        f"You are an agent that was sent to do one thing. Do all of it, and no more. {_COMMON_PROMPT}",
    ),
    AgentDefinition(
        "Explore",
        "Finds out how something works or where it is; changes nothing.",
        "You are an agent that was sent to find something out about a code base. Change nothing: no file, no "
        "repository, nothing that is running. Search widely, several things at once, then read what matters. "
        f"{_COMMON_PROMPT}",
        disallowed=_CHANGING_TOOLS,
    ),
    AgentDefinition(
        "Plan",
        "Designs how to do something; changes nothing.",
        "You are an agent that was sent to design a change. Change nothing. Read what is there, find what can be "
        "used again, weigh the ways there are, and give a plan in steps, with the files that matter most to it. "
        f"{_COMMON_PROMPT}",
        disallowed=_CHANGING_TOOLS,
    ),
)


def load_agent_definitions(
    config: Path, root: Path, *, trusted: bool, plugins: Sequence[Plugin] = ()
) -> Definitions[AgentDefinition]:
    """Load the definitions of all subagents."""
    found = load_definitions(config, root, "agents", _read_definition, trusted=trusted, plugins=plugins)
    return found._replace(by_name={**{agent.name: agent for agent in BUILT_IN_AGENTS}, **found.by_name})


def select_tools(agent: AgentDefinition, tools: Iterable[_AnyTool]) -> tuple[_AnyTool, ...]:
    """Return the tools that an agent may use, of those there are."""
    allows_all = agent.tools is None or "*" in agent.tools
    excluded = _NEEDS_USER | {*agent.disallowed}
    return tuple(
        tool
        for tool in tools
        if tool.name not in excluded and (allows_all or (agent.tools is not None and tool.name in agent.tools))
    )


def may_use_server_tool(agent: AgentDefinition, name: str) -> bool:
    """Return whether an agent may use a tool of an MCP server, or a tool to find one."""

    def is_named(listed: Iterable[str]) -> bool:
        # `mcp__server` and `mcp__server__*` mean all tools of a server.
        servers = (item.removesuffix("*").rstrip("_") for item in listed if item.startswith("mcp__"))
        return any(name == item or name.startswith(f"{item}__") for item in servers)

    if is_named(agent.disallowed) or name in agent.disallowed:
        return False
    if agent.tools is None or "*" in agent.tools or name in agent.tools:
        return True
    return is_named(agent.tools)


def _read_definition(file: DefinitionFile) -> AgentDefinition:
    """Read the agent that a file defines; `Unreadable` says what is wrong with it."""
    fields, body = file.read("agent")
    name, model, path = fields.get("name", ""), fields.get("model", "inherit"), file.path
    if not name:
        raise Unreadable(f"the agent `{path}` has no `name`")
    if not _NAME.fullmatch(name):
        raise Unreadable(f"invalid agent name `{name}` in `{path}`")
    if not fields.get("description"):
        raise Unreadable(f"the agent `{path}` has no `description`")
    if not body:
        raise Unreadable(f"the agent `{path}` has no instructions")
    return AgentDefinition(
        name=file.full_name(name),
        description=fields["description"],
        prompt=body,
        source=file.source,
        path=path,
        tools=parse_list(fields["tools"]) if fields.get("tools") else None,
        disallowed=parse_list(fields.get("disallowedTools", "")),
        model=None if model == "inherit" else model,
        max_steps=_positive(fields.get("maxTurns", "")),
    )


def _positive(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and int(text[:9]) > 0 else None


class _GivenAgent(msgspec.Struct, frozen=True, rename="camel"):
    description: str
    prompt: str
    tools: list[str] | None = None
    disallowed_tools: list[str] | None = None
    model: str | None = None
    max_turns: int | None = None


def parse_agents(value: Any) -> Iterator[AgentDefinition]:
    """Yield the agents that a program or the command line defines, by name."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise UsageError("`agents` is not an object")
    for name, fields in value.items():
        if not _NAME.fullmatch(name):
            raise UsageError(f"invalid agent name `{name}`")
        for field, given in fields.items() if isinstance(fields, dict) else ():
            if field not in _AGENT_FIELDS and given not in (None, False, [], {}, ""):
                raise UsageError(f"`{field}` of the agent `{name}` is not supported", hint="leave the field out")
        try:
            agent = msgspec.convert(fields, _GivenAgent)
        except msgspec.ValidationError as error:
            raise UsageError(f"the agent `{name}` is not valid: {str(error).lower()}") from None
        yield AgentDefinition(
            name,
            agent.description,
            agent.prompt,
            source="program",
            tools=None if agent.tools is None else tuple(agent.tools),
            disallowed=tuple(agent.disallowed_tools or ()),
            model=None if agent.model == "inherit" else agent.model,
            max_steps=agent.max_turns,
        )
