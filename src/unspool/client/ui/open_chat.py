"""What a conversation from the command line is fitted out with: settings and a folder in, a conversation out.

Rules
  1. What lies in a folder acts only if the folder is trusted: its settings, agents and commands.
  2. What flags say goes before what the environment says, and both before settings files.
  3. What is wrong with any of it is said, and the rest acts all the same.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from unspool.client import agent_definitions
from unspool.client.chat import Chat
from unspool.client.compaction.policy import Space
from unspool.client.compaction.token_window import Gauge
from unspool.client.config import Settings, Start, World
from unspool.client.loop.wiring import Fittings
from unspool.client.permissions import settings as files
from unspool.client.permissions.decide import Permissions
from unspool.client.permissions.trust import Trust
from unspool.client.prompt import custom_commands
from unspool.client.prompt.instructions import LIMIT, Scope
from unspool.client.prompt.system_prompt import Briefing, Surroundings
from unspool.client.tool_context import Desk, Place
from unspool.client.tools.base import Tool
from unspool.client.tools.registry import run, tools
from unspool.client.ui.opened_chat import Led
from unspool.client.ui.slash_commands import DEFAULT_MODEL, model_name
from unspool.client.web_access import Online
from unspool.errors import Refused, Usage
from unspool.graph.context.model_rules import window
from unspool.paths import data_folder

if TYPE_CHECKING:
    from unspool.client.protocols import Person

Json: TypeAlias = dict[str, Any]


class Here(NamedTuple):
    """As much of a world as says which rules hold."""

    config: Path
    cwd: Path
    environment: Mapping[str, str]


def is_trusted(settings: Settings, world: World | Here) -> bool:
    """Tell whether the folder that is worked in is trusted: by a flag, or since it was asked."""
    return settings.trusted or trust(world).holds(world.cwd)


def trust(world: World | Here) -> Trust:
    """Return the list of trusted folders."""
    home = world.environment.get("HOME")
    return Trust(data_folder(world.environment), Path(home) if home else None)


def environment(config: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the variables of the user's own settings, which go before it."""
    return {**given, **dict(files.load(config, config, trusted=False).environment)}


def explained(call: str, settings: Settings, world: Here) -> str:
    """Say what becomes of a call such as `Bash(git push)` and why, part by part."""
    name, _, inside = call.partition("(")
    rules = permissions(settings, world, trusted=is_trusted(settings, world))
    desk = Desk(Place(world.config, world.config, "", world.cwd.resolve(), settings.added), world.environment)
    desk.mode = _with_settings(settings, rules).mode or "default"
    return "\n".join(rules.explain(name.strip(), _input(name.strip(), inside.rstrip().removesuffix(")")), desk))


def _input(tool: str, text: str) -> Json:
    """Return the input that is meant: an object as JSON, or the value that a tool is aimed at."""
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=Json)
        except msgspec.DecodeError:
            raise Usage(f"not an input: `{text}`", hint="an object, as JSON; or what the tool is aimed at") from None
    named = {
        "Bash": "command",
        "WebFetch": "url",
        "Glob": "pattern",
        "Grep": "pattern",
        "NotebookEdit": "notebook_path",
    }
    named |= {"WebSearch": "query", "Task": "subagent_type"}
    return {named.get(tool, "file_path"): text}


async def opened(start: Start, settings: Settings, world: World, person: Person | None) -> Led:
    """Open a conversation with all it needs."""
    root, trusted = world.cwd.resolve(), is_trusted(settings, world)
    rules = permissions(settings, world, trusted=trusted)
    asked = _with_settings(settings, rules)
    known = agent_definitions.agents(world.config, root, trusted=trusted)
    customs = custom_commands.custom_commands(world.config, root, trusted=trusted)
    briefing = _briefing(asked, world, trusted=trusted)
    fittings = Fittings(
        tools=_tools(asked, rules, tuple(known.agents.values())),
        judge=rules,
        run=run,
        system=briefing.blocks,
        room=lambda walls: Space(walls, Gauge(asked.model, asked.window)),
        agents=known.agents,
        model_named=model_name,
    )
    chat = await Chat.open(start, asked, world, person, fittings)
    briefing.address(chat.model)
    chat.desk.web = online = Online(world.model, lambda: chat.model, world.environment)
    online.billed = chat.seat.spent
    chat.desk.hides = rules.hider(chat.desk)
    problems = (*rules.loaded.problems, *known.problems, *customs.problems, *briefing.problems)
    return Led(chat, rules, customs.commands, tuple(known.agents), problems)


def permissions(settings: Settings, world: World | Here, *, trusted: bool) -> Permissions:
    """Return the rules that hold."""
    root = world.cwd.resolve()
    flags = files.Flags(settings.allowed, settings.disallowed)
    loaded = files.load(world.config, root, trusted=trusted, flags=flags)
    return Permissions(loaded, root=root, trusted=trusted)


def _with_settings(settings: Settings, rules: Permissions) -> Settings:
    """Return how the conversation is led once the settings files have been heard."""
    loaded = rules.loaded
    if settings.mode is not None and (why := rules.refuses(settings.mode)):
        raise Refused(why)
    mode = settings.mode or (loaded.mode if loaded.mode and not rules.refuses(loaded.mode) else None)
    model = model_name(settings.model or loaded.model or DEFAULT_MODEL)
    added = (*settings.added, *loaded.added)
    return msgspec.structs.replace(settings, mode=mode, model=model, keeps_model=not settings.model, added=added)


def _tools(settings: Settings, rules: Permissions, sent: tuple[agent_definitions.Agent, ...]) -> tuple[Tool, ...]:
    there = tools(sent)
    if settings.tools is not None:
        known = {tool.name for tool in there}
        for name in settings.tools:
            if name not in known:
                raise Usage(f"no such tool: `{name}`", hint=f"there are {', '.join(sorted(known))}")
        there = tuple(tool for tool in there if tool.name in settings.tools)
    denied = rules.removed(tool.name for tool in there)
    return tuple(tool for tool in there if tool.name not in denied)


def _briefing(settings: Settings, world: World, *, trusted: bool) -> Briefing:
    root, home = world.cwd.resolve(), world.environment.get("HOME")
    where = Surroundings(
        cwd=str(root),
        model=settings.model,
        platform=platform.system(),
        date=f"{world.now():%Y-%m-%d}",
        added=tuple(map(str, settings.added)),
    )
    room = settings.window or window(settings.model) or LIMIT  # a quarter of it, at four characters a token
    scope = Scope(root, world.config, Path(home) if home else None, trusted, min(LIMIT, room))
    return Briefing(scope, where, replaced=settings.system_prompt, appended=settings.append_system_prompt or "")
