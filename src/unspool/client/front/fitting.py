"""What a conversation is fitted out with."""

from __future__ import annotations

from typing import Any

from unspool.client.asked import Settings, World
from unspool.client.desk import Desk
from unspool.client.fittings import Fittings
from unspool.client.person import Ruling
from unspool.client.tools.bash import Bash
from unspool.client.tools.registry import tools
from unspool.client.tools.run import run


class Judge:
    def judge(self, tool: str, input: dict[str, Any], desk: Desk) -> Ruling:
        if tool in ("Read",) or desk.mode == "bypassPermissions":
            return Ruling(behaviour="allow", why="looks only")
        return Ruling(behaviour="ask", why="no rule", suggestions=(tool,))

    def keep(self, rule: str, where: str) -> None:
        pass


def fitted(settings: Settings, world: World) -> Fittings:
    from unspool.client.room import Ample

    return Fittings(
        tools=(*tools(), Bash()),
        judge=Judge(),
        run=run,
        system=lambda desk: [{"type": "text", "text": "You help."}],
        room=lambda t: Ample(),
    )


def separated(text: str) -> list[str]:
    return [part for part in text.replace(",", " ").split() if part]
