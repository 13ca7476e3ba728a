"""Where one conversation sits, a session's or an agent's: its lines, its desk, its model; the loop that leads it.

[merged: fittings.py] What a conversation is fitted out with: tools, who judges their calls, what the model is told, who makes room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from unspool.client import events
from unspool.client.agent_definitions import Agent
from unspool.client.compaction.policy import Room, Walls
from unspool.client.config import Limits, Settings, World
from unspool.client.loop.capabilities import Learned
from unspool.client.loop.inbox import Inbox, Waiting
from unspool.client.loop.loop import Loop, Parts
from unspool.client.loop.model_calls import Asking, Means, Replies
from unspool.client.loop.request import request
from unspool.client.loop.tool_calls import ToolSideEffects, Bench, Calls, Judge, Run
from unspool.client.session.transcript import Transcript
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Tool
from unspool.client.tools.registry import definitions, understood

Json: TypeAlias = dict[str, Any]


class Fittings(NamedTuple):
    """All of them."""

    tools: tuple[Tool, ...]
    judge: Judge
    run: Run
    system: Callable[[Desk], list[Json]]
    """The system prompt, as blocks."""
    room: Callable[[Walls], Room]
    agents: Mapping[str, Agent] = {}
    """Who can be sent, by name."""
    model_named: Callable[[str], str] = str
    """The model that a short name means."""


class Surroundings(NamedTuple):
    """What conversations of one session share."""

    world: World
    settings: Settings
    fittings: Fittings
    learned: Learned


class Seat:
    """One conversation."""

    def __init__(self, around: Surroundings, desk: Desk, transcript: Transcript, model: str) -> None:
        self.around = around
        self.desk = desk
        self.transcript = transcript
        self.model = model
        self.inbox = Inbox()
        self.waiting = Waiting(transcript)
        self.room: Room
        self.loop: Loop
        self.written: Callable[[], None] = _nothing
        """Called when the conversation begins anew on disk."""
        self.news: Callable[[], Iterator[events.AnyEvent]] = _no_news
        desk.progress = self._progressed

    def sit(self, aftermath: ToolSideEffects, limits: Limits, agent: str | None = None) -> None:
        """Be ready for a turn."""
        around, world = self.around, self.around.world
        fittings = around.fittings
        tools = {tool.name: tool for tool in understood(fittings.tools, [*fittings.agents.values()])}
        bench = Bench(tools, self.desk, around.fittings.judge, around.fittings.run, aftermath, agent)
        walls = Walls(self.transcript, self.inbox, world.model, self._whole_request, self.spent, self.written)
        self.room = around.fittings.room(walls)
        self.room.change(self.model)
        asking = Asking(world.model, self.transcript, self.inbox)
        means = Means(self.request, around.learned.refused, world.pause, world.clock)
        self.replies = Replies(asking, self.transcript, self.inbox, self.room, means)
        parts = Parts(
            inbox=self.inbox,
            transcript=self.transcript,
            replies=self.replies,
            calls=Calls(bench, self.transcript, self.inbox),
            waiting=self.waiting,
            room=self.room,
            clock=world.clock,
            news=self.news,
        )
        self.loop = Loop(parts, limits)

    def request(self) -> tuple[Json, tuple[str, ...]]:
        """Return the next request, and its betas."""
        body, betas = self._whole_request()
        return self.room.allowed(body), betas

    def _whole_request(self) -> tuple[Json, tuple[str, ...]]:
        fittings, manner = self.around.fittings, self.around.settings.manner(self.model)
        system, tools = fittings.system(self.desk), definitions(fittings.tools)
        return request(manner, self.around.learned.can, system, tools, self.transcript.conversation.messages)

    def spent(self, model: str | None, usage: Json) -> None:
        """Count what was asked beside the conversation."""
        self.replies.totals.add(model, usage)

    def _progressed(self, call_id: str, data: Json) -> None:
        self.inbox.put(events.CallProgressed(id=call_id, data=data))


def _nothing() -> None:
    """Do nothing."""


def _no_news() -> Iterator[events.AnyEvent]:
    return iter(())
