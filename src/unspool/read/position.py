"""How far a file was read, and whether it is still that file. Knows nothing of what lines mean.

Rules
  1. A position is good only for the file it was made on: another inode (replaced), fewer bytes (truncated), or other
     bytes at the head or before the offset (rewritten) make it another file.
"""

from __future__ import annotations

import os
from enum import Enum

import msgspec

SAMPLE = 4096
"""How many bytes of the head, and before the offset, are remembered by their hash."""


class Change(Enum):
    """What happened to a file since a position in it."""

    NEW = "new"
    SAME = "same"
    GROWN = "grown"
    TRUNCATED = "truncated"
    REPLACED = "replaced"
    REWRITTEN = "rewritten"


class Position(msgspec.Struct, frozen=True):
    """How far a file was read, and enough to notice that it is no longer that file."""

    offset: int = 0
    device: int = 0
    inode: int = 0
    head: bytes = b""
    """Hash of the first bytes, at most `SAMPLE` and none after the offset."""
    boundary: bytes = b""
    """Hash of the last bytes before the offset."""


START = Position()


def changed(file: int, position: Position) -> Change:
    """Return what happened to an open file since a position in it."""
    if position == START:
        return Change.NEW
    now = os.fstat(file)
    if (now.st_dev, now.st_ino) != (position.device, position.inode):
        return Change.REPLACED
    if now.st_size < position.offset:
        return Change.TRUNCATED
    if _samples(file, position.offset) != (position.head, position.boundary):
        return Change.REWRITTEN
    return Change.SAME if now.st_size == position.offset else Change.GROWN


def position_at(file: int, offset: int, before: Position = START) -> Position:
    """Return where a reading of an open file that got this far may go on; `before` is one it has gone on from."""
    now = os.fstat(file)
    if has_head(before):
        boundary = _hash(os.pread(file, SAMPLE, offset - SAMPLE))
        return Position(offset, now.st_dev, now.st_ino, before.head, boundary)
    return Position(offset, now.st_dev, now.st_ino, *_samples(file, offset))


def has_head(position: Position) -> bool:
    """Tell whether a position knows all of the head, so that it need not be read again."""
    return position.offset >= SAMPLE


def position_in(data: bytes, offset: int, status: os.stat_result) -> Position:
    """Return the same for a file whose first bytes, up to the offset at least, are at hand."""
    length = min(SAMPLE, offset)
    head, boundary = _hash(data[:length]), _hash(data[offset - length : offset])
    return Position(offset, status.st_dev, status.st_ino, head, boundary)


def _samples(file: int, offset: int) -> tuple[bytes, bytes]:
    length = min(SAMPLE, offset)
    return _hash(os.pread(file, length, 0)), _hash(os.pread(file, length, offset - length))


def _hash(data: bytes) -> bytes:
    from _blake2 import blake2b  # that of `hashlib`, which would load OpenSSL: as long as fifty files take to read

    return blake2b(data, digest_size=16).digest()
