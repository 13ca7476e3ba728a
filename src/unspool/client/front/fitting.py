"""What a conversation from the command line is fitted out with: settings and a folder in, a conversation out.

Rules
  1. What lies in a folder acts only if the folder is trusted: its settings, agents and commands.
  2. What flags say goes before what settings say, and what the environment says before the user's settings.
  3. What is wrong with any of it is said, and the rest acts all the same.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from unspool.client import agents, instructions, slash, system
from unspool.client import settings as files
from unspool.client.asked import Settings, Start, World
from unspool.client.branch import branch
from unspool.client.calls import Run
from unspool.client.chat import Chat
from unspool.client.desk import Desk
from unspool.client.fittings import Fittings
from unspool.client.front.led import Led
from unspool.client.permissions import Permissions
from unspool.client.space import Space
from unspool.client.tools.registry import tools
from unspool.client.tools.run import run
from unspool.client.tools.tool import Outcome, Tool
from unspool.client.trust import Trust
from unspool.client.web import Online
from unspool.client.window import Gauge
from unspool.errors import Refused, Usage
from unspool.paths import data_folder

if TYPE_CHECKING:
    from unspool.client.person import Person

Json: TypeAlias = dict[str, Any]

_LOOKING = ("Read", "Edit", "Write")


def is_trusted(settings: Settings, world: World) -> bool:
    """Tell whether the folder that is worked in is trusted: by a flag, or since it was asked."""
    return settings.trusted or trust(world).holds(world.cwd)


def trust(world: World) -> Trust:
    """Return the list of trusted folders."""
    home = world.environment.get("HOME")
    return Trust(data_folder(world.environment), Path(home) if home else None)


async def opened(start: Start, settings: Settings, world: World, person: Person | None) -> Led:
    """Open a conversation with all it needs."""
    root, trusted = world.cwd.resolve(), is_trusted(settings, world)
    rules = permissions(settings, world, trusted=trusted)
    led = _with_settings(settings, rules)
    known = agents.agents(world.config, root, trusted=trusted)
    customs = slash.custom_commands(world.config, root, trusted=trusted)
    home = world.environment.get("HOME")
    scope = instructions.Scope(root, world.config, Path(home) if home else None, trusted)
    found = instructions.of(scope)
    fittings = Fittings(
        tools=_tools(led, rules, tuple(known.agents.values())),
        judge=rules,
        run=_running(scope, found),
        system=_system(led, world, instructions.worded(found)),
        room=lambda walls: Space(walls, Gauge(led.model, led.window)),
    )
    chat = await Chat.open(start, led, world, person, fittings)
    chat.desk.web = Online(world.model, lambda: chat.model, world.environment)
    problems = (*rules.loaded.problems, *known.problems, *customs.problems, *found.problems)
    return Led(chat, rules, customs.commands, tuple(known.agents), problems)


def permissions(settings: Settings, world: World, *, trusted: bool) -> Permissions:
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
    return msgspec.structs.replace(settings, mode=mode, added=(*settings.added, *loaded.added))


def _tools(settings: Settings, rules: Permissions, sent: tuple[agents.Agent, ...]) -> tuple[Tool, ...]:
    from unspool.client.tools.bash import Bash

    there = (*tools(), Bash())
    if settings.tools is not None:
        known = {tool.name for tool in there}
        for name in settings.tools:
            if name not in known:
                raise Usage(f"no such tool: `{name}`", hint=f"there are {', '.join(sorted(known))}")
        there = tuple(tool for tool in there if tool.name in settings.tools)
    denied = rules.removed(tool.name for tool in there)
    return tuple(tool for tool in there if tool.name not in denied)


def _system(settings: Settings, world: World, written: str) -> Callable[[Desk], list[Json]]:
    root = world.cwd.resolve()

    def told(desk: Desk) -> list[Json]:
        where = system.Surroundings(
            cwd=str(root),
            model=settings.model,
            platform=platform.system(),
            date=f"{world.now():%Y-%m-%d}",
            branch=branch(root),
            added=tuple(map(str, settings.added)),
        )
        return system.prompt(where, written, replaced=settings.system_prompt, appended=settings.append_system_prompt)

    return told


def _running(scope: instructions.Scope, found: instructions.Found) -> Run:
    """Return what runs tools: with a file of a folder below come the instructions that are written down there."""
    known = found.paths

    async def ran(tool: Tool, input: Json, desk: Desk, call_id: str) -> Outcome:
        nonlocal known
        outcome = await run(tool, input, desk, call_id)
        name = input.get("file_path") if tool.name in _LOOKING and isinstance(input, dict) else None
        if outcome.is_error or not isinstance(name, str):
            return outcome
        more = instructions.nested(scope, Path(name), known)
        if not more.texts:
            return outcome
        known |= more.paths
        told = {"type": "text", "text": f"<system-reminder>\n{instructions.worded(more)}\n</system-reminder>"}
        return msgspec.structs.replace(outcome, extra=(*outcome.extra, told))

    return ran
