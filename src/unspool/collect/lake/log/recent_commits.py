"""Keeps the recent commits of all tables in one object of the lake, so that an ingest need not fetch each by itself.

Rules
  1. The object is a cache, `recent-commits`. Each ingest that commits writes it at the end of a round; of two, the last
     counts. What it lacks is fetched from the logs, and what it has too little shows when a commit is refused.
  2. It has the commits of a table after its last checkpoint, byte for byte. An ingest compares the last one with the
     log before it commits.
  3. Commits have the least and greatest values of columns. `lake forget` deletes the object after the logs. Who writes
     it looks at the log of the first table afterwards: if that was replaced meanwhile, the object is deleted.
"""

from __future__ import annotations

import hashlib

import msgspec

from unspool.collect.lake.tables import lake_tables
from unspool.collect.object_store import SegmentStore
from unspool.format import DECODE_ERRORS
from unspool.store.archive import compress, decompress_at_most, frame_errors

NAME = "recent-commits"
VERSION = 1
_LARGEST = 256 * 1024 * 1024
_LEVEL = 3


class KnownLog(msgspec.Struct, frozen=True):
    """The end of the log of a table."""

    first: int
    """The version of the first of the commits."""
    commits: list[bytes]
    checkpoint: bytes = b""
    """`_last_checkpoint` of the table; nothing if the log begins with the first commit."""


class RecentCommits(msgspec.Struct, frozen=True):
    """The content of the object."""

    version: int
    columns: str
    """The digest of the columns that all tables were found to have."""
    tables: dict[str, KnownLog]


NOTHING = RecentCommits(VERSION, "", {})

_decoder = msgspec.msgpack.Decoder(RecentCommits)


def declared_columns() -> str:
    """Return a digest of the columns that this version declares."""
    names = [(name, table.names) for name, table in lake_tables().items()]
    return hashlib.sha256(msgspec.json.encode(names)).hexdigest()[:16]


def read_recent(object_store: SegmentStore) -> RecentCommits:
    """Return the recent commits; none if there is no object, a damaged one or one of a newer version."""
    data = object_store.get(NAME)
    if data is None:
        return NOTHING
    try:
        found = _decoder.decode(decompress_at_most(data, _LARGEST))
    except frame_errors():
        return NOTHING
    except DECODE_ERRORS:
        return NOTHING
    return found if found.version == VERSION else NOTHING


def write_recent(object_store: SegmentStore, recent: RecentCommits) -> None:
    """Write the object."""
    object_store.overwrite(NAME, compress(msgspec.msgpack.encode(recent), _LEVEL))
