"""What a conversation is fitted out with: tools, who judges their calls, what the model is told, who makes room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from unspool.client.agents import Agent
from unspool.client.calls import Judge, Run
from unspool.client.desk import Desk
from unspool.client.room import Room, Walls
from unspool.client.tools.tool import Tool

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
