"""Finds the turn of hits inside agents whose lines say no time: the turn in which the session started the agent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from unspool.errors import UnspoolError
from unspool.store.search.results import SearchHit

if TYPE_CHECKING:
    from unspool.home import Home

_MAX_LINKED_BYTES = 64 * 1024 * 1024
"""Bytes of a session and its agents: linking them holds all in memory."""


def add_agent_turns(hits: Sequence[SearchHit], home: Home) -> list[SearchHit]:
    """Give hits inside agents the turn in which the session started the agent: `show` has the agent's steps there."""
    sessions = {hit.session for hit in hits if hit.agent and hit.session and hit.turn is None}
    turns: dict[tuple[str, str], int] = {}
    for id in sessions:
        from unspool.export import find_agent_turns  # start-up: most hits are in sessions themselves

        with suppress(UnspoolError):  # a session that has gone, or cannot be read
            session = home.session(id)
            if sum(source.size for source in (session.source, *session.agent_sources)) <= _MAX_LINKED_BYTES:
                turns |= {(id, agent): turn for agent, turn in find_agent_turns(session).items()}
    return [
        hit._replace(turn=turns.get((hit.session or "", hit.agent))) if hit.agent and hit.turn is None else hit
        for hit in hits
    ]
