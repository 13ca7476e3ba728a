"""A cache of session indexes on disk, so that a long session need not be read again to be opened.

Rules
  1. An index that was packed and unpacked again goes on as if nothing had happened.
  2. What another edition wrote, or what is damaged, counts for nothing: the file is read anew.
  3. The cache may be deleted at any time: a session is then read again. Whether an index still fits its file is noticed
     when reading goes on from its position.
  4. Folder and files are for the user alone (0700, 0600); a file appears whole or not at all.
  5. Only the indexes that were used last are kept.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from unspool.errors import UnspoolError
from unspool.files import read_whole, write_atomically
from unspool.graph import BranchIndex, BranchState, FactsCollector
from unspool.page.index import IndexedCall, IndexedTurn, SessionIndex
from unspool.prices import Response
from unspool.read import Position

EDITION: Final = "page 4"
"""To be changed with whatever an index remembers."""
FOLDER: Final = "pages"
MIN_CACHED_BYTES: Final = 8_000_000
"""A session of this size takes noticeably long to read."""
_MAX_FILES: Final = 40
_MAX_BYTES: Final = 200_000_000
_COPIED: Final = (
    "fact_collector", "turns", "calls", "agents", "agent_prompts", "queued", "repeated", "repeated_blocks",
    "first_lines", "api_errors", "context_windows", "is_main", "written", "last_message",
)  # fmt: skip
"""Attributes of an index that are packed as they are."""


class _PackedIndex(msgspec.Struct, array_like=True):
    # Packed as an array: the order of the fields is the format.
    edition: str
    position: Position
    branches: BranchState
    fact_collector: FactsCollector
    turns: list[IndexedTurn]
    calls: dict[str, IndexedCall]
    agents: dict[str, str]
    agent_prompts: dict[str, list[str]]
    queued: set[int]
    repeated: set[int]
    repeated_blocks: dict[int, list[int]]
    first_lines: dict[str, int]
    responses: list[Response]
    api_errors: list[int]
    context_windows: dict[str, int]
    is_main: bool
    counts: tuple[int, int, int]
    written: set[int]
    last_message: str | None


def pack_index(index: SessionIndex, position: Position) -> bytes:
    """Return an index, and the position up to which the file was read, as bytes."""
    index.finish()
    packed = _PackedIndex(
        edition=EDITION,
        position=position,
        branches=index.branches.state(),
        responses=[response for _, response in index.responses.responses()],
        counts=(index.bad, index.unknown, index.end),
        **{name: getattr(index, name) for name in _COPIED},
    )
    return msgspec.msgpack.encode(packed)


def unpack_index(data: bytes, file: str) -> tuple[SessionIndex, Position] | None:
    """Return the index and the position that bytes hold; nothing if they are of another edition or damaged."""
    try:
        packed = msgspec.msgpack.decode(data, type=_PackedIndex)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if packed.edition != EDITION or not packed.turns:
        return None
    index = SessionIndex(file)
    for name in _COPIED:
        setattr(index, name, getattr(packed, name))
    index.bad, index.unknown, index.end = packed.counts
    index.branches = BranchIndex(packed.branches)
    index.turn_starts = [turn.start for turn in packed.turns]
    for response in packed.responses:
        index.responses.add(0, response)
    return index, packed.position


class IndexCache:
    """The folder with the packed indexes of session files."""

    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER

    def get(self, path: Path) -> bytes | None:
        """Return the packed index of a session file, if there is one."""
        cached = self._path(path)
        try:
            packed = read_whole(cached, _MAX_BYTES)
        except UnspoolError:
            return None
        with suppress(OSError):
            os.utime(cached)  # the newest are kept (rule 5)
        return packed

    def put(self, path: Path, data: bytes) -> None:
        """Keep the packed index of a session file, if the folder can be written."""
        cached = self._path(path)
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(cached, data)
            newest = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
            for old in newest[_MAX_FILES:]:
                old.unlink(missing_ok=True)

    def _path(self, path: Path) -> Path:
        return self._folder / hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
