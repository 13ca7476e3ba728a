"""A plan: what an edit would do, as data. Nothing here is done yet.

Two numbers are told apart everywhere: bytes of the file, and tokens of the context. A line outside the context costs
room on disk and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from unspool.edit.ids import Identity


class Change(NamedTuple):
    """Something that goes or becomes something else, and why."""

    entry: int
    """The offset of the line in the source."""
    uuid: str | None
    block: int | None
    kind: str
    reason: str


class Pair(NamedTuple):
    """A number before and after."""

    before: int
    after: int


class Payback(NamedTuple):
    """What it costs that the API has to read the changed context anew, and when that is made up for."""

    model: str
    rewritten_tokens: int
    """Tokens from the first change on: the API's cache no longer has them."""
    rewrite_micros: int
    """What writing them to the cache costs, in millionths of a dollar."""
    saved_micros: int
    """What each later request costs less."""
    requests: int | None
    """After how many requests the rewrite is paid for; None: never."""
    turns: int | None
    """The same in turns, as many requests each as this session had."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What an edit would do."""

    operation: str
    source: str
    """The id of the session that is edited."""
    session: str
    """The id of the session that comes of it: another, or in place the same."""
    data: bytes
    """The new session's file."""
    changes: tuple[Change, ...] = ()
    lines: Pair
    context_tokens: Pair
    removed: Mapping[str, int] = {}
    """How many of what went: `result`, `thinking`, `turn`, …"""
    payback: Payback | None = None
    identity: Identity | None = None
    """The new ids; None in place."""
    moved: Mapping[str, str | None] = {}
    """Lines that go, each with the nearest one above it that stays: for what is appended meanwhile."""
    leaf: str | None = None
    """The line to go on from, by its id in the new session."""
    agents_gone: frozenset[str] = frozenset()
    """Agents whose calls went: their files are not copied."""
    file_bytes: Pair
    exact_tokens: bool = False
    """Whether the API counted the tokens; else they are estimated from the session's own usage."""
    notes: tuple[str, ...] = ()
    """What a person should know besides."""

    @property
    def in_place(self) -> bool:
        """Whether the session itself is written anew."""
        return self.session == self.source
