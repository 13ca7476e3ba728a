"""Follows the chain of segments of a device and gives all parts of the streams in it.

Rules
  1. Two transactions say how far a chain is in a table: the place of its next segment, and the digest of its last. So a
     listing starts there, and the next segment is known by its name to follow.
  2. A segment belongs to a chain if its name, its header and the digest of the one before it agree; a part belongs to a
     stream if its header and the digest of the part before it do.
  3. A chain is read up to a gap or a bad segment. A bad part makes its segment bad.
  4. Derived rows need all parts of a stream. Those that were ingested come from its bundle (`bundles.py`), and what
     that lacks from the segments that have them: each part names the segment that has the one before it.
  5. A check may refuse a segment for its signature (`trust/segment_checks.py`); then it is a bad one.
  6. The first parts of a stream may be segments of its own, sent by an earlier version.
  7. Every part passes the filter of what was forgotten (`lifecycle/forget_filter.py`) before it is bundled or returned.
  8. A rewritten segment is accepted by its signed tombstone alone. It has no signature of its device any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from tempfile import TemporaryFile
from typing import NamedTuple

from unspool.collect.lake.bundles import FEW_PARTS, read_part_bundle, write_part_bundle
from unspool.collect.lake.lifecycle.forget_filter import NO_FILTER, ForgetFilter
from unspool.collect.lake.streams import (
    BadSegment,
    ReadSegment,
    StoredPart,
    follow_chain,
    list_streams,
    modified_micros,
)
from unspool.collect.object_store import ListedObject, SegmentStore
from unspool.collect.segments import (
    FIRST,
    FIRST_DAY,
    FOLDER,
    DeviceSegmentHeader,
    DeviceSegmentName,
    PartEntry,
    SegmentPart,
    decode_part,
    decode_part_header,
    parse_device_segment_name,
    part_digest,
    read_original,
    segment_digest,
    unpack_device_segment,
    unpack_segment,
    unpack_signed_segment,
)
from unspool.collect.trust.tombstones import DigestReader, plain_digest
from unspool.errors import Refused, Unreadable

_SEQUENCE_BITS = 39
"""A mark holds day and number in 63 bits: 24 are enough for a thousand years."""


class ChainMark(NamedTuple):
    """The end of a chain: what the next segment must be."""

    day: str
    """In the name of the next segment."""
    sequence: int
    """Of the last segment."""
    digest: int
    """Of the last segment, as in `shorten_digest`."""

    def start(self, home: str) -> str | None:
        """Return the name after which the chain goes on; None at its beginning."""
        # The dot sorts after the dash that follows the number of the last segment.
        return f"{FOLDER}/{home}/{self.day}/{self.sequence:012d}." if self.sequence else None


BEGINNING = ChainMark(FIRST_DAY, 0, 0)


class DeviceSegment(NamedTuple):
    """A segment that was read and fits into the chain of its device."""

    name: DeviceSegmentName
    header: DeviceSegmentHeader
    parts: list[SegmentPart]
    listed: ListedObject
    mark: ChainMark
    """The end of the chain after it."""
    digest: str


class ReceivedSegment(NamedTuple):
    """A segment whose place in the chain was checked, and its signature was not."""

    name: str
    """Of the object."""
    header: DeviceSegmentHeader
    line: bytes
    """The bytes of the header."""
    parts: list[SegmentPart]
    is_rewritten: bool
    """Whether an administrator has rewritten it: a signed tombstone of exactly these bytes was found."""


SegmentCheck = Callable[[ReceivedSegment], str | None]
"""Returns why a segment is refused; None if it is not."""


class NewParts(NamedTuple):
    """Parts of a stream that are in new segments of its device."""

    id: str
    home: str
    stream: str
    """The stream's name in the object store."""
    entries: list[tuple[PartEntry, int]]
    """Each with the number of its segment in the chain."""
    parts: list[StoredPart]
    listed: ListedObject
    """The first of the segments."""


class WholeStream(NamedTuple):
    """A stream with all its parts."""

    new: NewParts
    reads: list[ReadSegment]
    own: int
    """How many of the first parts are segments of the stream's own chain."""


def chain_app(home: str) -> str:
    """Return the transaction that has the place of the next segment of a device."""
    return f"chain:{home}"


def digest_app(home: str) -> str:
    """Return the transaction that has the digest of the last segment of a device."""
    return f"chain-digest:{home}"


def shorten_digest(digest: str) -> int:
    """Return the first 63 bits of a digest: a transaction has a signed number of 64.

    >>> shorten_digest("f" * 16) == 2**63 - 1
    True
    """
    return int(digest[:16], 16) >> 1


def chain_versions(home: str, mark: ChainMark) -> dict[str, int]:
    """Return the transactions that record a mark.

    >>> read_mark(chain_versions("a/b", ChainMark("2026-01-05", 7, 9)), "a/b")
    ChainMark(day='2026-01-05', sequence=7, digest=9)
    """
    year, month, day = map(int, mark.day.split("-"))
    number = (year - 2000) * 10_000 + month * 100 + day
    return {chain_app(home): number << _SEQUENCE_BITS | mark.sequence, digest_app(home): mark.digest}


def read_mark(versions: Mapping[str, int], home: str) -> ChainMark:
    """Return how far the chain of a device is in a table with these transactions."""
    version = versions.get(chain_app(home))
    if version is None:
        return BEGINNING
    number = version >> _SEQUENCE_BITS
    day = f"{2000 + number // 10_000:04d}-{number // 100 % 100:02d}-{number % 100:02d}"
    return ChainMark(day, version & ((1 << _SEQUENCE_BITS) - 1), versions.get(digest_app(home), 0))


def follow_device_chain(
    get: Callable[[str], bytes | None],
    listed: Sequence[ListedObject],
    start: ChainMark,
    bad: list[BadSegment],
    *,
    check: SegmentCheck | None = None,
    digest_of: DigestReader = plain_digest,
) -> Iterator[DeviceSegment]:
    """Yield the segments after a mark in order, up to a gap or a bad one; bad objects are added to a list."""
    by_number = group_by_number(listed)
    mark, digest = start, None
    while mark.sequence + 1 in by_number and mark.sequence + 1 < 1 << _SEQUENCE_BITS:
        read: DeviceSegment | None = None
        for item, name in by_number[mark.sequence + 1]:
            if (name.day, shorten_digest(name.previous)) != (mark.day, mark.digest):
                bad.append(BadSegment(item.name, item.size, "it does not follow the segment before it"))
            elif read is None:
                read = _read_device_segment(get(item.name), item, digest, bad, check=check, digest_of=digest_of)
        if read is None:
            return
        yield read
        mark, digest = read.mark, read.digest


def group_by_number(listed: Iterable[ListedObject]) -> dict[int, list[tuple[ListedObject, DeviceSegmentName]]]:
    """Return the segments of a chain by number."""
    by_number: dict[int, list[tuple[ListedObject, DeviceSegmentName]]] = {}
    for item in listed:
        name = parse_device_segment_name(item.name)
        assert name is not None
        by_number.setdefault(name.sequence, []).append((item, name))
    return by_number


def has_gap(listed: Sequence[ListedObject], mark: ChainMark) -> bool:
    """Return whether a segment after a mark is missing before others."""
    numbers = group_by_number(listed).keys()
    return any(number not in numbers for number in range(mark.sequence + 1, max(numbers, default=0)))


def _read_device_segment(
    data: bytes | None,
    listed: ListedObject,
    digest: str | None,
    bad: list[BadSegment],
    *,
    check: SegmentCheck | None,
    digest_of: DigestReader,
) -> DeviceSegment | None:
    name = parse_device_segment_name(listed.name)
    if data is None or name is None:
        return None
    try:
        header, parts, line = unpack_signed_segment(data)
        # Before the check: what says that it was rewritten, and has no tombstone, ends here.
        own_digest = digest_of(listed.name, data, header.original or "")
    except (Unreadable, Refused) as error:
        bad.append(BadSegment(listed.name, listed.size, error.message))
        return None
    stated = (header.org, header.device, header.day, header.sequence, header.previous[:16])
    # A name holds only 16 digits of the digest, and the header all of them.
    if stated != name or (digest is not None and header.previous != digest) or header.next_day < header.day:
        bad.append(BadSegment(listed.name, listed.size, "its header belongs to another segment"))
        return None
    if not parts:
        bad.append(BadSegment(listed.name, listed.size, "it has no parts"))
        return None
    received = ReceivedSegment(listed.name, header, line, parts, is_rewritten=bool(header.original))
    reason = check(received) if check else None
    if reason is not None:
        bad.append(BadSegment(listed.name, listed.size, reason))
        return None
    mark = ChainMark(header.next_day, header.sequence, shorten_digest(own_digest))
    return DeviceSegment(name, header, parts, listed, mark, own_digest)


def read_parts(parts: Iterable[StoredPart]) -> list[ReadSegment]:
    """Decode the parts of a stream, which must follow each other from the first one on; else `Unreadable`."""
    reads, digest = list[ReadSegment](), FIRST
    for number, part in enumerate(parts, 1):
        segment = unpack_segment(part.data) if part.is_segment else decode_part(part.data)
        if (segment.header.sequence, segment.header.previous) != (number, digest):
            raise Unreadable(f"part {number:,} does not follow the one before it")
        digest = part_digest(segment.header, part.data)
        reads.append(ReadSegment(segment, digest, len(part.data), part.modified))
    return reads


def read_own_segments(
    object_store: SegmentStore,
    home: str,
    stream: str,
    identify: Callable[[str, str, str], str],
    forget: ForgetFilter = NO_FILTER,
) -> list[StoredPart]:
    """Return the segments of a stream's own chain, of an earlier version, up to a gap or a bad one."""
    listing = list_streams(object_store, [f"{home}/{stream}"], identify)
    objects: dict[str, bytes] = {}

    def get(name: str) -> bytes | None:
        data = object_store.get(name)
        if data is not None:
            objects[segment_digest(data)] = objects[read_original(data)] = data
        return data

    return [
        forget.apply(home, 0, StoredPart(True, read.modified, objects[read.digest]))
        for chain in listing.streams.values()
        for read in follow_chain(get, chain, [], forget.original_digest)
    ]


class ChainReader:
    """Reads new segments of devices, and the earlier parts of the streams in them."""

    def __init__(
        self,
        object_store: SegmentStore,
        bundles: SegmentStore,
        identify: Callable[[str, str, str], str],
        ends: Mapping[str, int],
        forget: ForgetFilter = NO_FILTER,
    ) -> None:
        self._object_store, self._bundles, self._identify = object_store, bundles, identify
        self._forget = forget
        self._ends = ends
        """By stream id: the number of the last part in all tables."""

    def read_slice(
        self,
        listed: Sequence[ListedObject],
        get: Callable[[str], bytes | None],
        home: str,
        start: ChainMark,
        bad: list[BadSegment],
        *,
        check: SegmentCheck | None = None,
    ) -> tuple[dict[str, NewParts], ChainMark]:
        """Return the parts in new segments by stream id, and the end of the chain after them."""
        streams, mark = dict[str, NewParts](), start
        chain = follow_device_chain(get, listed, start, bad, check=check, digest_of=self._forget.original_digest)
        for segment in chain:
            found = list(self._check_parts(segment, home, streams))
            reason = next((one for one in found if isinstance(one, str)), None)
            if reason is not None:
                bad.append(BadSegment(segment.listed.name, segment.listed.size, reason))
                break
            for one in found:
                assert not isinstance(one, str)
                new = streams.setdefault(one.id, one)
                if new is not one:
                    new.entries.extend(one.entries)
                    new.parts.extend(one.parts)
            mark = segment.mark
        return streams, mark

    def _check_parts(
        self, segment: DeviceSegment, home: str, streams: Mapping[str, NewParts]
    ) -> Iterator[NewParts | str]:
        """Yield the parts of a segment, each for itself, or what is wrong with one."""
        last = {new.stream: new.entries[-1][0].sequence for new in streams.values()}
        for entry, stored in stored_parts(segment):
            try:
                header = decode_part_header(stored.data)
            except Unreadable as error:
                yield error.message
                return
            stated = (header.org, header.device, header.stream, header.sequence)
            if stated != (*segment.name[:2], entry.stream, entry.sequence):
                yield "the header of a part belongs to another"
                return
            if header.original and not segment.header.original:
                yield "a part was rewritten, and the segment was not"
                return
            id = self._identify(*stated[:3])
            before = last.get(entry.stream, self._ends.get(id))
            # What a stream's own chain has may not be in the tables yet, or its row may be lost: then all is read.
            if not entry.before and entry.stream not in last:
                before = None
            if entry.sequence < 1 or (before is not None and entry.sequence != before + 1):
                yield "a part does not follow the one before it"
                return
            last[entry.stream] = entry.sequence
            position = segment.mark.sequence
            kept = self._forget.apply(home, position, stored)
            yield NewParts(id, home, entry.stream, [(entry, position)], [kept], segment.listed)

    def complete(self, new: NewParts) -> WholeStream | BadSegment:
        """Return a stream with all its parts, and write its bundle; a bad segment if they cannot be had."""
        count = new.entries[0][0].sequence - 1
        bundle = self._forget.bundle_id(new.home, new.id)
        bundled, reason = read_part_bundle(self._bundles, bundle)[:count] if count else [], ""
        for known in (bundled, []):
            try:
                whole = [*self._earlier(new, known, count), *new.parts]
                reads = read_parts(whole)
            except (Unreadable, Refused) as error:
                reason = error.message
                continue
            if count or len(whole) > FEW_PARTS:
                write_part_bundle(self._bundles, bundle, whole)
            return WholeStream(new, reads, sum(part.is_segment for part in whole))
        return BadSegment(new.listed.name, new.listed.size, reason)

    def _earlier(self, new: NewParts, known: Sequence[StoredPart], count: int) -> Sequence[StoredPart]:
        """Return the first parts of a stream, the beginning of which is known."""
        found: list[StoredPart] = []
        before = new.entries[0][0].before
        while len(known) < count:
            if not before:
                own = read_own_segments(self._object_store, new.home, new.stream, self._identify, self._forget)
                return [*own[:count], *found]
            name = f"{FOLDER}/{new.home}/{before}.jsonl.zst"
            parsed = parse_device_segment_name(name)
            data = self._object_store.get(name) if parsed else None
            if data is None or parsed is None:
                raise Unreadable(f"an earlier part of the stream `{new.stream}` is missing: `{name}`")
            header, parts = unpack_device_segment(data)
            # The digest of the next part covers what is as it was sent. Of a rewritten segment only its tombstone does.
            self._forget.original_digest(name, data, header.original or "")
            mine = [part for part in parts if part.entry.stream == new.stream and part.entry.sequence <= count]
            if not mine:
                raise Unreadable(f"`{name}` has no part {count:,} of the stream `{new.stream}`")
            parts_before = (StoredPart(False, 0, part.text) for part in mine)
            found[:0] = [self._forget.apply(new.home, parsed.sequence, part) for part in parts_before]
            # The number falls with each step, so a chain that lies ends too.
            count, before = min(mine[0].entry.sequence - 1, count - 1), mine[0].entry.before
        return [*known[:count], *found]


class SpooledChain:
    """All parts of a device in a temporary file, to derive its rows anew; to be closed after use."""

    def __init__(
        self,
        object_store: SegmentStore,
        identify: Callable[[str, str, str], str],
        home: str,
        until: ChainMark,
        forget: ForgetFilter = NO_FILTER,
        *,
        check: SegmentCheck | None = None,
    ) -> None:
        self.home = home
        self._forget = forget
        self._object_store, self._identify, self._file = object_store, identify, TemporaryFile()  # noqa: SIM115
        self._places: dict[str, list[tuple[int, int, int]]] = {}
        self._names: dict[str, str] = {}
        self.bad: list[BadSegment] = []
        """Why the chain cannot be read up to its end; then it must not be used."""
        folder = f"{FOLDER}/{home}"
        every = object_store.names(folder, after=f"{folder}/1", before=f"{folder}/3")
        # A device may put other names between them too.
        listed = sorted(one for one in every if parse_device_segment_name(one.name))
        last = 0
        digest_of = forget.original_digest
        for segment in follow_device_chain(
            object_store.get, listed, BEGINNING, self.bad, check=check, digest_of=digest_of
        ):
            last = segment.mark.sequence
            for entry, sent in stored_parts(segment):
                part = forget.apply(home, last, sent)
                id = identify(*segment.name[:2], entry.stream)
                self._names[id] = entry.stream
                place = (self._file.tell(), self._file.write(part.data), part.modified)
                self._places.setdefault(id, []).append(place)
            if last == until.sequence:
                break
        if last < until.sequence and not self.bad:
            self.bad.append(BadSegment(folder, 0, f"segment {last + 1:,} is missing"))

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def batches(self, size: int) -> Iterator[frozenset[str]]:
        """Yield the ids of streams that have together about so many bytes."""
        batch, total = set[str](), 0
        for id, places in sorted(self._places.items()):
            batch.add(id)
            total += sum(length for _, length, _ in places)
            if total >= size:
                yield frozenset(batch)
                batch, total = set(), 0
        if batch:
            yield frozenset(batch)

    def parts(self, id: str) -> list[StoredPart]:
        """Return all parts of a stream."""
        found = []
        for offset, length, modified in self._places[id]:
            self._file.seek(offset)
            found.append(StoredPart(False, modified, self._file.read(length)))
        if decode_part_header(found[0].data).sequence > 1:
            found[:0] = read_own_segments(self._object_store, self.home, self._names[id], self._identify, self._forget)
        return found


def stored_parts(segment: DeviceSegment) -> Iterator[tuple[PartEntry, StoredPart]]:
    """Yield the parts of a segment with what is known of its object."""
    for part in segment.parts:
        yield part.entry, StoredPart(False, modified_micros(segment.listed), part.text)
