"""Lists the segments in an object store and follows the chain of each stream.

Rules
  1. A stream is read in the order of its numbers, from 1 on. Behind a gap, or a segment that cannot be read, it waits.
  2. A segment belongs to a stream if its name, its header and the digest of the one before it all say so.
  3. What is wrong with an object is told, and costs no other stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
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

_AT_ONCE = 8
"""Objects that are fetched at once: a store far away takes its time for each."""


class BadSegment(NamedTuple):
    """An object that is no segment of its stream."""

    name: str
    size: int
    reason: str


class SegmentChain(NamedTuple):
    """The segments of a stream, as far as their names tell."""

    org: str
    device: str
    id: str
    segments: dict[int, list[ListedObject]]
    """By number. There is one of each, unless somebody put another."""

    @property
    def home(self) -> str:
        """The device, in its organisation."""
        return f"{self.org}/{self.device}"

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
        return sum(one.size for found in self.segments.values() for one in found)


class SegmentListing(NamedTuple):
    """What was found under the name of segments."""

    streams: dict[str, SegmentChain]
    strays: list[BadSegment]
    """Objects whose names are none of a segment."""


class ReadSegment(NamedTuple):
    """A segment that is what it should be."""

    segment: Segment
    digest: str
    size: int


def list_streams(place: SegmentStore, homes: Iterable[str] | None = None) -> SegmentListing:
    """Return the streams of some devices (`org/device`), or of all."""
    streams: dict[str, SegmentChain] = {}
    strays: list[BadSegment] = []
    folders = [FOLDER] if homes is None else [f"{FOLDER}/{home}" for home in homes]
    for folder in folders:
        for found in place.names(folder):
            name = parse_segment_name(found.name)
            if name is None:
                strays.append(BadSegment(found.name, found.size, "its name is not that of a segment"))
                continue
            stream = streams.get(name.stream)
            if stream is None:
                stream = streams[name.stream] = SegmentChain(name.org, name.device, name.stream, {})
            if (stream.org, stream.device) != name[:2]:
                strays.append(
                    BadSegment(found.name, found.size, f"its stream is that of another device: `{stream.home}`")
                )
            else:
                stream.segments.setdefault(name.sequence, []).append(found)
    return SegmentListing(streams, strays)


def fetch_segments(place: SegmentStore, streams: Iterable[SegmentChain]) -> dict[str, bytes]:
    """Return the objects of streams by name, several of them fetched at once. One that has gone is left out."""
    names = [found.name for stream in streams for some in stream.segments.values() for found in some]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {name: data for name, data in zip(names, pool.map(place.get, names), strict=True) if data is not None}


def follow_chain(
    get: Callable[[str], bytes | None], stream: SegmentChain, bad: list[BadSegment]
) -> Iterator[ReadSegment]:
    """Yield the segments of a stream in order, as far as they can be read; what is wrong is added to a list."""
    before = FIRST
    for number in range(1, stream.last + 1):
        read = None
        for found in stream.segments[number]:
            name = parse_segment_name(found.name)
            assert name is not None
            if name.previous != before[:16]:
                bad.append(BadSegment(found.name, found.size, "it does not follow the segment before it"))
            elif read is None:
                read = _read(get(found.name), found, name, before, bad)
        if read is None:
            return
        yield read
        before = read.digest


def _read(
    data: bytes | None, found: ListedObject, name: SegmentName, before: str, bad: list[BadSegment]
) -> ReadSegment | None:
    if data is None:
        return None
    try:
        segment = unpack_segment(data)
    except Unreadable as error:
        bad.append(BadSegment(found.name, found.size, error.message))
        return None
    header = segment.header
    if (header.org, header.device, header.stream, header.sequence, header.previous) != (*name[:4], before):
        bad.append(BadSegment(found.name, found.size, "its header is that of another segment"))
        return None
    return ReadSegment(segment, segment_digest(data), len(data))
