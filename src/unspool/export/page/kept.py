"""An index written down, so that a long session need not be read again to be opened: an index in, bytes out, and back.

Rules
  1. An index that was written down and read back goes on as if it had never been away.
  2. What another edition wrote, or what is damaged, is nothing: the file is read anew.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from unspool.export.page.branches import Branches, BranchState
from unspool.export.page.index import Index
from unspool.export.page.parts import Called, Part
from unspool.graph.gathering import Gathering
from unspool.prices.answers import Response
from unspool.read.position import Position

EDITION = "page 1"
"""To be changed with whatever an index remembers."""


class _Kept(msgspec.Struct, array_like=True):
    edition: str
    position: Position
    branches: BranchState
    gathering: Gathering
    parts: list[Part]
    calls: dict[str, Called]
    agents: dict[str, str]
    prompts: dict[str, list[str]]
    queued: set[int]
    repeated: set[int]
    firsts: dict[str, int]
    responses: list[Response]
    errors: list[int]
    windows: dict[str, int]
    is_main: bool
    counts: tuple[int, int, int]
    waiting: list[tuple[bytes, list[int]]]
    written: set[int]
    message: str | None


class Restored(NamedTuple):
    """An index, and how far the file was read."""

    seen: Index
    position: Position


def packed(index: Index, position: Position) -> bytes:
    """Return an index as bytes."""
    index.finish()
    responses = [response for _, response in index.counting.billed()]
    kept = _Kept(
        EDITION, position, index.branches.state(), index.gathering, index.parts, index.calls, index.agents,
        index.prompts, index.queued, index.repeated, index.firsts, responses, index.errors, index.windows,
        index.is_main, (index.bad, index.unknown, index.end), list(index.waiting.items()), index.written, index.message,
    )  # fmt: skip
    return msgspec.msgpack.encode(kept)


def unpacked(data: bytes, file: str) -> Restored | None:
    """Return the index that bytes hold; nothing if they are of another edition or damaged."""
    try:
        kept = msgspec.msgpack.decode(data, type=_Kept)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if kept.edition != EDITION or not kept.parts:
        return None
    index = Index(file)
    for name in ("parts", "calls", "agents", "prompts", "queued", "repeated", "firsts", "errors", "windows", "is_main"):
        setattr(index, name, getattr(kept, name))
    index.bad, index.unknown, index.end = kept.counts
    index.branches, index.gathering = Branches(kept.branches), kept.gathering
    index.waiting, index.written, index.message = dict(kept.waiting), kept.written, kept.message
    index.starts = [part.start for part in kept.parts]
    for response in kept.responses:
        index.counting.add(0, response)
    return Restored(index, kept.position)
