"""An index written down, so that a long session need not be read again to be opened: an index in, bytes out, and back.

Rules
  1. An index that was written down and read back goes on as if it had never been away.
  2. What another edition wrote, or what is damaged, is nothing: the file is read anew.

[merged: memory.py] What pages remember of long sessions, kept from one server to the next: a file's path in, bytes out.

Rules
  1. It may be deleted at any time: a session is then read again. What does not fit the file any more is noticed there.
  2. Folder and files are for the user alone (0700, 0600); a file appears whole or not at all.
  3. Few are kept: the ones looked at last.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from unspool.errors import UnspoolError
from unspool.files.open import read_whole
from unspool.graph.branch_index import Branches, BranchState
from unspool.graph.session_facts import Gathering
from unspool.page.index import Called, Index, Part
from unspool.prices.responses import Response
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


FOLDER: Final = "pages"
LONG: Final = 8_000_000
"""Bytes of a session that takes noticeably long to read."""
_MOST: Final = 40
_LARGEST: Final = 200_000_000


class Memory:
    """The folder they are kept in."""

    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER

    def get(self, path: Path) -> bytes | None:
        """Return what was kept of a file."""
        place = self._place(path)
        try:
            found = read_whole(place, _LARGEST)
        except UnspoolError:
            return None
        with suppress(OSError):
            os.utime(place)
        return found

    def put(self, path: Path, data: bytes) -> None:
        """Keep something of a file. Where nothing can be written, nothing is kept."""
        place = self._place(path)
        beside = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            beside.replace(place)
            self._clear()
        except OSError:
            with suppress(OSError):
                beside.unlink()

    def _clear(self) -> None:
        kept = sorted(self._folder.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in kept[_MOST:]:
            old.unlink(missing_ok=True)

    def _place(self, path: Path) -> Path:
        return self._folder / hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
