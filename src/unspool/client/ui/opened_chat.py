"""A conversation as front ends lead it: the chat, the rules it is held to, what its folder brings along. Data only."""

from __future__ import annotations

from typing import NamedTuple

from unspool.client.chat import Chat
from unspool.client.permissions.decide import Permissions
from unspool.client.prompt.custom_commands import Custom


class Led(NamedTuple):
    """One conversation, and what front ends need beside it."""

    chat: Chat
    permissions: Permissions
    customs: dict[str, Custom]
    """Commands of the user's and of the folder."""
    agents: tuple[str, ...] = ()
    """Kinds of agents that can be sent."""
    problems: tuple[str, ...] = ()
    """What is wrong with settings, commands, agents and instructions."""
