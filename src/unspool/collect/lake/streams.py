"""Lists the segments in an object store and follows the chain of each stream.

Rules
  1. A stream is read in the order of its numbers, from 1 on, up to a gap or an unreadable segment.
  2. A segment belongs to a stream if its name, its header and the digest of the one before it agree.
  3. A bad object is reported, and delays no other stream.
  4. A stream belongs to the device below whose prefix it is. The id that it has in the tables is made of both, so a
     device that uses the name of another's stream has a stream of its own. In a lake of version 1 the id is the name
     alone: there the device that comes first in a listing has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from unspool.collect.object_store import ListedObject, SegmentStore
from unspool.collect.segments import (
    FIRST,
    FOLDER,
    Segment,
    SegmentName,
    parse_segment_name,
    segment_digest,
    unpack_segment,
)
from unspool.errors import Unreadable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AT_ONCE = 8
"""Objects that are fetched in parallel: a request to a distant store has a high latency."""


class BadSegment(NamedTuple):
    """An object below `segments/` that is no segment of its stream, and why."""

    name: str
    size: int
    reason: str


class SegmentChain(NamedTuple):
    """The segments of a stream by their names; nothing of them has been read."""

    org: str
    device: str
    name: str
    """The stream's name in the object store."""
    id: str
    """The stream's id in the tables."""
    segments: dict[int, list[ListedObject]]
    """By number. There is one object for each, unless somebody else has put another under the same number."""

    @property
    def home(self) -> str:
        """The device with its organisation: `org/device`."""
        return f"{self.org}/{self.device}"

    @property
    def path(self) -> str:
        """The stream with its device: `org/device/stream`."""
        return f"{self.home}/{self.name}"

    @property
    def last(self) -> int:
        """The number of the last segment before a gap."""
        number = 0
        while number + 1 in self.segments:
            number += 1
        return number

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(listed.size for same_number in self.segments.values() for listed in same_number)


class SegmentListing(NamedTuple):
    """The streams below `segments/`, and the objects that belong to none."""

    streams: dict[str, SegmentChain]
    strays: list[BadSegment]
    """Objects whose names are not those of segments, or whose stream is another device's."""


class ReadSegment(NamedTuple):
    """A segment that was read and fits into its chain."""

    segment: Segment
    digest: str
    size: int
    modified: int = 0
    """When the object was put, by the store's clock: microseconds since 1970."""


def device_stream_id(org: str, device: str, name: str) -> str:
    """Return the id of a stream in the tables, which no other device can have.

    >>> device_stream_id("acme", "d1", "0" * 32) == device_stream_id("acme", "d2", "0" * 32)
    False
    """
    return hashlib.sha256("\0".join((org, device, name)).encode()).hexdigest()[:32]


def list_streams(
    object_store: SegmentStore,
    homes: Iterable[str] | None = None,
    identify: Callable[[str, str, str], str] = device_stream_id,
) -> SegmentListing:
    """Return the streams of some devices (`org/device`), or of all, by their id in the tables."""
    streams: dict[str, SegmentChain] = {}
    strays: list[BadSegment] = []
    folders = [FOLDER] if homes is None else [f"{FOLDER}/{home}" for home in homes]
    for folder in folders:
        for listed in object_store.names(folder):
            name = parse_segment_name(listed.name)
            if name is None:
                strays.append(BadSegment(listed.name, listed.size, "its name is not a segment name"))
                continue
            id = identify(name.org, name.device, name.stream)
            stream = streams.get(id)
            if stream is None:
                stream = streams[id] = SegmentChain(name.org, name.device, name.stream, id, {})
            # Only in a lake of version 1.
            if (stream.org, stream.device) != name[:2]:
                strays.append(
                    BadSegment(listed.name, listed.size, f"its stream belongs to another device: `{stream.home}`")
                )
            else:
                stream.segments.setdefault(name.sequence, []).append(listed)
    return SegmentListing(streams, strays)


def fetch_segments(
    object_store: SegmentStore, streams: Iterable[SegmentChain], bundled: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the objects of streams by name: from `bundled`, else fetched in parallel; not those that are gone."""
    names = [listed.name for stream in streams for objects in stream.segments.values() for listed in objects]
    fetched = [name for name in names if name not in bundled]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = zip(fetched, pool.map(object_store.get, fetched), strict=True)
        objects = {name: data for name, data in found if data is not None}
    return objects | {name: bundled[name] for name in names if name in bundled}


def follow_chain(
    get: Callable[[str], bytes | None], stream: SegmentChain, bad: list[BadSegment]
) -> Iterator[ReadSegment]:
    """Yield the segments of a stream in order up to the first unreadable one; bad objects are added to a list."""
    digest = FIRST
    for number in range(1, stream.last + 1):
        read = None
        for listed in stream.segments[number]:
            name = parse_segment_name(listed.name)
            assert name is not None
            # An exchanged segment shows here: the name of the next one holds the digest of the original.
            if name.previous != digest[:16]:
                bad.append(BadSegment(listed.name, listed.size, "it does not follow the segment before it"))
            elif read is None:
                read = _read_segment(get(listed.name), listed, name, digest, bad)
        if read is None:
            return
        yield read
        digest = read.digest


def _read_segment(
    data: bytes | None, listed: ListedObject, name: SegmentName, previous: str, bad: list[BadSegment]
) -> ReadSegment | None:
    if data is None:
        return None
    try:
        segment = unpack_segment(data)
    except Unreadable as error:
        bad.append(BadSegment(listed.name, listed.size, error.message))
        return None
    header = segment.header
    # A name holds only 16 digits of the digest, and the header all of them.
    if (header.org, header.device, header.stream, header.sequence, header.previous) != (*name[:4], previous):
        bad.append(BadSegment(listed.name, listed.size, "its header belongs to another segment"))
        return None
    return ReadSegment(segment, segment_digest(data), len(data), modified_micros(listed))


def modified_micros(listed: ListedObject) -> int:
    """Return when an object was put, in microseconds since 1970."""
    return (listed.modified - _EPOCH) // timedelta(microseconds=1)
