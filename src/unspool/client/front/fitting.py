"""What a conversation from the command line is fitted out with: settings and a folder in, tools and rules out.

Rules
  1. What lies in a folder acts only if the folder is trusted: its settings, agents and commands.
  2. What flags say goes before what settings say.
"""

from __future__ import annotations

from unspool.client import settings as files
from unspool.client.asked import Settings, World
from unspool.client.fittings import Fittings
from unspool.client.permissions import Permissions
from unspool.client.tools.registry import tools
from unspool.client.tools.run import run
from unspool.client.tools.tool import Tool
from unspool.errors import Usage


def permissions(settings: Settings, world: World, *, trusted: bool) -> Permissions:
    """Return the rules that hold."""
    root = world.cwd.resolve()
    flags = files.Flags(settings.allowed, settings.disallowed)
    loaded = files.load(world.config, root, trusted=trusted, flags=flags)
    return Permissions(loaded, root=root, trusted=trusted)


def fitted(settings: Settings, world: World, rules: Permissions) -> Fittings:
    """Return everything else."""
    from unspool.client.room import Ample

    return Fittings(
        tools=_tools(settings, rules),
        judge=rules,
        run=run,
        system=lambda desk: [{"type": "text", "text": "You help."}],
        room=lambda t: Ample(),
    )


def _tools(settings: Settings, rules: Permissions) -> tuple[Tool, ...]:
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
