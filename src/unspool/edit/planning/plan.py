"""Defines the operations of `unspool edit` and the plan that says what one of them would do, as data.

Two numbers are told apart everywhere: bytes of the file, and tokens of the context. A line outside the context costs
space on disk and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from unspool.edit.planning.ids import IdMap

if TYPE_CHECKING:  # start-up: only one of the edits needs it
    from unspool.redact import TextRemoval


class Clone(msgspec.Struct, frozen=True):
    """Copies a session as it is, under new ids."""


class Fork(msgspec.Struct, frozen=True):
    """Copies a session up to a turn or line."""

    at: str


class Move(msgspec.Struct, frozen=True):
    """Puts a session into the folder of another project."""

    to: str


class Trim(msgspec.Struct, frozen=True):
    """Takes parts out of a session's context; each option names a kind of part."""

    tools: tuple[str, ...] | None = None
    """The names of tools whose calls go; empty: all of them. None: calls stay."""
    results: bool = False
    superseded_reads: bool = False
    thinking: bool = False
    images: bool = False
    turns: range | None = None
    keep_last: int | None = None
    outside: bool = False
    older_than: int = 0
    """Of results: only those after which came at least so many prompts."""
    calls_older_than: int = 0
    """The same for calls."""
    larger_than: int = 512
    """Of results: only those with more bytes than this."""


class TrimTo(msgspec.Struct, frozen=True):
    """Trims as much as it takes to reach a number of tokens, or a percentage of the tokens before."""

    tokens: int | None = None
    percent: float | None = None
    outside: bool = False


class Compress(msgspec.Struct, frozen=True):
    """Replaces older turns by a summary."""

    keep_last: int = 2
    keep_calls: bool = False
    words: str | None = None
    """The summary that a model wrote; None: it is made without a model."""


class Repair(msgspec.Struct, frozen=True):
    """Repairs everything that keeps a session from being resumed."""


class Redact(msgspec.Struct, frozen=True):
    """Removes texts from every line, in the session itself."""

    removal: TextRemoval


Operation: TypeAlias = Clone | Fork | Move | Trim | TrimTo | Compress | Repair | Redact
OPERATION_NAMES: dict[type, str] = {
    Clone: "clone", Fork: "fork", Move: "move", Trim: "trim", TrimTo: "trim", Compress: "compress",
    Repair: "repair", Redact: "redact",
}  # fmt: skip


class EditIds(NamedTuple):
    """The ids and the time for what an edit writes: they come from outside, so that planning is repeatable."""

    session: str
    """The id of the resulting session; that of the source: in place."""
    seed: bytes
    boundary: str
    summary: str
    now: str
    """The time, in the format of session lines."""


class PlannedChange(NamedTuple):
    """A line or block that is removed or changed, and why."""

    entry: int
    """The offset of the line in the source."""
    uuid: str | None
    block: int | None
    kind: str
    reason: str


class BeforeAfter(NamedTuple):
    """A number before and after an edit."""

    before: int
    after: int


class Payback(NamedTuple):
    """What the API charges for reading the changed context anew, and after how many requests that is recovered."""

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


class EditPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an edit would do."""

    operation: str
    source: str
    """The id of the session that is edited."""
    session: str
    """The id of the session that results: a new one, or in place the same."""
    data: bytes
    """The content of the new session file."""
    changes: tuple[PlannedChange, ...] = ()
    lines: BeforeAfter
    context_tokens: BeforeAfter
    removed: Mapping[str, int] = {}
    """How many of each kind were removed: `result`, `thinking`, `turn`, …"""
    payback: Payback | None = None
    id_map: IdMap | None = None
    """The new ids; None in place."""
    kept_ancestors: Mapping[str, str | None] = {}
    """Removed lines, each with the nearest one above it that stays: for lines that are appended meanwhile."""
    leaf: str | None = None
    """The line to continue from, by its id in the new session."""
    kept_in_context: tuple[str, ...] = ()
    """The lines that a compression keeps in the context, by their ids in the new session."""
    file_bytes: BeforeAfter
    exact_tokens: bool = False
    """Whether the API counted the tokens; else they are estimated from the session's own usage."""

    @property
    def in_place(self) -> bool:
        """Whether the session itself is written anew."""
        return self.session == self.source
