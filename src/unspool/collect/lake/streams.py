"""Lists the segments in an object store and follows the chain of each stream that has one of its own.

The chains of devices are followed in `chains.py`; here they are listed.

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
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import NamedTuple

from unspool.collect.object_store import ListedObject, SegmentStore
from unspool.collect.segments import (
    FIRST,
    FOLDER,
    Segment,
    parse_device_segment_name,
    parse_segment_name,
    unpack_segment,
)
from unspool.collect.trust.tombstones import DigestReader, plain_digest
from unspool.errors import Refused, Unreadable

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
        return last_before_gap(self.segments)

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(listed.size for same_number in self.segments.values() for listed in same_number)


class SegmentListing(NamedTuple):
    """The streams and chains below `segments/`, and the objects that belong to none."""

    streams: dict[str, SegmentChain]
    """Those that have a chain of their own."""
    strays: list[BadSegment]
    """Objects whose names are not those of segments, or whose stream is another device's."""
    chains: dict[str, list[ListedObject]]
    """By device (`org/device`): the segments of its chain, in order."""


class ReadSegment(NamedTuple):
    """A segment that was read and fits into its chain."""

    segment: Segment
    digest: str
    size: int
    modified: int = 0
    """When the object was put, by the store's clock: microseconds since 1970."""


class StoredPart(NamedTuple):
    """A part of a stream as it is stored."""

    is_segment: bool
    """Whether it is an object of the stream's own chain; else it is the text of a part."""
    modified: int
    """When its object was put: microseconds since 1970."""
    data: bytes


def last_before_gap(numbers: Container[int]) -> int:
    """Return the last of the numbers 1, 2, 3, … before one that is missing; 0 if the first is.

    >>> last_before_gap({1, 2, 4}), last_before_gap({2})
    (2, 0)
    """
    return next(number for number in count() if number + 1 not in numbers)


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
    """Return everything that some devices (`org/device`), or all, have sent; streams by their id in the tables."""
    listing = SegmentListing({}, [], {})
    for folder in [FOLDER] if homes is None else [f"{FOLDER}/{home}" for home in homes]:
        _add_objects(listing, object_store.names(folder), identify)
    return listing


def list_pending(
    object_store: SegmentStore,
    homes: Iterable[str] | None,
    identify: Callable[[str, str, str], str],
    start_of: Callable[[str], str | None],
) -> SegmentListing:
    """Return what devices, or all, may have sent since an ingest.

    `start_of` returns for a device the name after which its chain goes on; None if none of it was ingested.
    """
    listing = SegmentListing({}, [], {})
    is_all = homes is None
    if homes is None:
        homes, found = find_homes(object_store)
        _add_objects(listing, found, identify)
    for home in homes:
        start, folder = start_of(home), f"{FOLDER}/{home}"
        if is_all and start is not None and _sequence_in(start) <= _FEW_SEGMENTS:
            # One request instead of two: all names of such a device fit into one page of a listing.
            every = object_store.names(folder)
            _add_objects(listing, (one for one in every if not _is_done(one, start)), identify)
            continue
        if is_all or start is None:
            inside = object_store.folder(folder)
            days = (name for name in inside.folders if _DAY.fullmatch(name.rpartition("/")[2]))
            if inside.objects or len(inside.folders) != sum(1 for _ in days):
                every = object_store.names(folder)
                _add_objects(listing, (one for one in every if start is None or not _is_done(one, start)), identify)
                continue
        _add_objects(listing, object_store.names(folder, after=start or f"{folder}/1", before=f"{folder}/3"), identify)
    return listing


_FEW_SEGMENTS = 200
_DAY = re.compile(r"2\d{3}-\d{2}-\d{2}")


def _is_done(listed: ListedObject, start: str) -> bool:
    return listed.name <= start and parse_device_segment_name(listed.name) is not None


def _sequence_in(start: str) -> int:
    """Return the number of the segment after which a chain goes on."""
    return int(start.rpartition("/")[2].rstrip("."))


def find_homes(object_store: SegmentStore) -> tuple[list[str], list[ListedObject]]:
    """Return the devices that have a folder, and the objects that are in the folder of none."""
    top = object_store.folder(FOLDER)
    orgs = [object_store.folder(org) for org in top.folders]
    homes = [home.removeprefix(f"{FOLDER}/") for org in orgs for home in org.folders]
    return homes, [listed for folder in (top, *orgs) for listed in folder.objects]


def _add_objects(
    listing: SegmentListing, objects: Iterable[ListedObject], identify: Callable[[str, str, str], str]
) -> None:
    # A folder on this machine is not listed in order, and a store may list an object twice.
    for listed in sorted({one.name: one for one in objects}.values()):
        name, in_chain = parse_segment_name(listed.name), parse_device_segment_name(listed.name)
        if in_chain is not None:
            listing.chains.setdefault(f"{in_chain.org}/{in_chain.device}", []).append(listed)
            continue
        if name is None:
            listing.strays.append(BadSegment(listed.name, listed.size, "its name is not a segment name"))
            continue
        id = identify(name.org, name.device, name.stream)
        stream = listing.streams.get(id)
        if stream is None:
            stream = listing.streams[id] = SegmentChain(name.org, name.device, name.stream, id, {})
        # Only in a lake of version 1.
        if (stream.org, stream.device) != name[:2]:
            reason = f"its stream belongs to another device: `{stream.home}`"
            listing.strays.append(BadSegment(listed.name, listed.size, reason))
        else:
            stream.segments.setdefault(name.sequence, []).append(listed)


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
    get: Callable[[str], bytes | None],
    stream: SegmentChain,
    bad: list[BadSegment],
    digest_of: DigestReader = plain_digest,
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
                read = _read_segment(get(listed.name), listed, digest, bad, digest_of)
        if read is None:
            return
        yield read
        digest = read.digest


def _read_segment(
    data: bytes | None, listed: ListedObject, previous: str, bad: list[BadSegment], digest_of: DigestReader
) -> ReadSegment | None:
    name = parse_segment_name(listed.name)
    if data is None or name is None:
        return None
    try:
        segment = unpack_segment(data)
        digest = digest_of(listed.name, data, segment.header.original)
    except (Unreadable, Refused) as error:
        bad.append(BadSegment(listed.name, listed.size, error.message))
        return None
    header = segment.header
    # A name holds only 16 digits of the digest, and the header all of them.
    if (header.org, header.device, header.stream, header.sequence, header.previous) != (*name[:4], previous):
        bad.append(BadSegment(listed.name, listed.size, "its header belongs to another segment"))
        return None
    return ReadSegment(segment, digest, len(data), modified_micros(listed))


def modified_micros(listed: ListedObject) -> int:
    """Return when an object was put, in microseconds since 1970."""
    return (listed.modified - _EPOCH) // timedelta(microseconds=1)
