"""Remembers what was verified in a lake: one object, written by `lake verify`.

    verified    compressed; by device how far its segments were read, by partition which files were counted

Rules
  1. It saves work and decides nothing: what is in it was read from segments and tables by an earlier run. If it is
     missing, damaged, or of another version, everything is read again.
  2. Of a device there is how far its chain was read, a digest of the names, sizes and times of the objects up to there,
     and how many lines they have, with a sum. If the listing still gives the digest, they are not read again.
  3. Of a partition of a table there is a digest of its files by the table's log, and the rows of each bucket of devices
     with their sum. If the log still gives the digest, they are not counted again.
  4. A device with a problem keeps what was recorded of it before, so the problem is found again until it is solved.
  5. A device that was forgotten as a whole is not recorded, and `lake forget` removes what was.
  6. Its size follows devices and partitions, not lines: some hundred bytes for each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from unspool.collect.lake.tables import LINES
from unspool.collect.object_store import ListedObject, SegmentStore
from unspool.errors import ObjectStoreFailed
from unspool.format import DECODE_ERRORS
from unspool.store.archive import compress, decompress_at_most, frame_errors

NAME = "verified"
_VERSION = 1
_LARGEST = 1 << 30
_MODULUS = 1 << 63
"""Sums are numbers of 63 bits, as every reader of JSON and MessagePack has them."""


class RowSum(NamedTuple):
    """Some rows: how many, and the sum of a digest of each. Rows in any order, from any files, give the same."""

    rows: int = 0
    digest: int = 0

    def plus(self, rows: int, digest: int) -> RowSum:
        """Return it with more rows."""
        return RowSum(self.rows + rows, (self.digest + digest) % _MODULUS)


class PartitionRows(msgspec.Struct, frozen=True):
    """The rows of a partition of a table."""

    files: str
    """The digest of its files."""
    buckets: dict[int, RowSum] = {}
    """By bucket of the device."""


class VerifiedDevice(msgspec.Struct, frozen=True, kw_only=True):
    """How far the segments of a device were read, and the lines in them."""

    day: str
    sequence: int
    digest: int
    """With day and sequence the mark of the chain (`chains.py`)."""
    objects: str
    """The digest of the listing of the chain up to there."""
    lines: dict[str, RowSum]
    """By table."""
    stream_objects: str
    """The same of streams with chains of their own."""
    stream_lines: dict[str, RowSum]
    has_heartbeat: bool


class VerifiedLake(msgspec.Struct, frozen=True):
    """What was verified in a lake."""

    version: int = _VERSION
    devices: dict[str, VerifiedDevice] = {}
    """By `org/device`."""
    tables: dict[str, dict[str, PartitionRows]] = {}
    """By table, with the id in its log, and by partition."""


_decoder = msgspec.msgpack.Decoder(VerifiedLake)


def read_verified(object_store: SegmentStore) -> VerifiedLake:
    """Return what was verified in a lake; nothing if that is not known."""
    data = object_store.get(NAME)
    try:
        text = decompress_at_most(data, _LARGEST) if data else b""
    except frame_errors():
        return VerifiedLake()
    try:
        found = _decoder.decode(text) if text else VerifiedLake()
    except DECODE_ERRORS:
        return VerifiedLake()
    tables = set(LINES)
    is_whole = all(tables == {*device.lines} == {*device.stream_lines} for device in found.devices.values())
    return found if found.version == _VERSION and is_whole else VerifiedLake()


def write_verified(object_store: SegmentStore, verified: VerifiedLake) -> bool:
    """Record what was verified; return False if the lake may not be written."""
    try:
        object_store.overwrite(NAME, compress(msgspec.msgpack.encode(verified), 3))
    except ObjectStoreFailed:
        return False
    return True


def drop_verified(object_store: SegmentStore, homes: Collection[str]) -> None:
    """Remove what was recorded of some devices: their names must not stay there."""
    known = read_verified(object_store)
    if not known.devices:
        # Also of another version, or damaged: it may have their names all the same.
        object_store.delete(NAME)
    elif not known.devices.keys().isdisjoint(homes):
        kept = {home: device for home, device in known.devices.items() if home not in homes}
        object_store.overwrite(NAME, compress(msgspec.msgpack.encode(msgspec.structs.replace(known, devices=kept)), 3))


def line_digest(stream: str, sequence: int, generation: int, offset: int) -> int:
    """Return the digest of a line in the tables; `row_sums.py` has the same in SQL."""
    text = f"{stream}:{sequence}:{generation}:{offset}"
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[8:], "little")


def digest_listing(listed: Iterable[ListedObject]) -> str:
    """Return a digest of the names, sizes and times of objects, in the order of their names."""
    found = hashlib.sha256()
    for one in sorted(listed):
        found.update(f"{one.name} {one.size} {one.modified.timestamp():.6f}\n".encode())
    return found.hexdigest()[:32]


def digest_names(names: Iterable[str]) -> str:
    """Return a digest of names, in any order."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:32]
