"""Compares what a device says, the segments of it in the object store, and how far the tables say they are.

Rules
  1. Everything in a device's heartbeat or manifest must exist as segments without gap, and be in the tables.
  2. The segments up to the mark of the tables are read once, and their lines counted. Later their names, sizes and
     times are compared with what was there then; if anything differs, all segments of the device are read again.
  3. The name of a segment holds the digest of the one before it, and the tables that of the last, so the digests cover
     everything ingested.
  4. Segments that were not ingested are read as far as they follow each other.
  5. What is there from the segment of a revocation on is named, whether or not it is in the tables.
  6. A rewritten segment counts as the one that its signed tombstone names, and with no other bytes. It has the lines
     that were left; the listing has changed, so it is read again. Of a segment with something that was forgotten only
     the other lines must be in the tables. With `is_full` it is named: `lake forget` did not finish, or a collector
     sent the same again.
  7. One device at a time: memory follows the largest one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from unspool.collect.heartbeat import DeviceHeartbeat
from unspool.collect.lake.chains import (
    BEGINNING,
    ChainMark,
    ReceivedSegment,
    chain_app,
    follow_device_chain,
    group_by_number,
    read_mark,
    shorten_digest,
    stored_parts,
)
from unspool.collect.lake.lake import Lake
from unspool.collect.lake.lifecycle.forget_filter import ForgetFilter
from unspool.collect.lake.streams import (
    BadSegment,
    SegmentChain,
    SegmentListing,
    follow_chain,
    last_before_gap,
    list_streams,
)
from unspool.collect.lake.tables import LINES, device_bucket
from unspool.collect.lake.trust import LakeTrust
from unspool.collect.lake.verify.state import RowSum, VerifiedDevice, digest_listing, line_digest
from unspool.collect.manifest import DeviceManifest
from unspool.collect.object_store import ListedObject, SegmentStore
from unspool.collect.segments import FOLDER as SEGMENTS
from unspool.collect.segments import Segment, decode_part, read_original
from unspool.errors import Refused, Unreadable
from unspool.store.columns import LINE_KINDS

_NAMED = 10
"""Missing segments that a problem names."""


class LakeProblem(NamedTuple):
    """A difference between manifests, segments and tables."""

    what: str
    where: str
    words: str


class SourceRow(NamedTuple):
    """The row of a stream in `sources`."""

    sequence: int
    digest: str
    lines: int


class DeviceComparison(NamedTuple):
    """What was found of a device."""

    problems: list[LakeProblem]
    segments: int
    streams: int
    lines: dict[str, RowSum] | None
    """By table: the lines that it must have of the device; None if not all segments can be read."""
    verified: VerifiedDevice | None
    """What to record; None if the device must be read again."""
    new_streams: frozenset[str]
    """Streams with lines in the tables, and perhaps without a row in `sources`."""


class LineCounts:
    """The lines of segments by table, and by part if that is asked for."""

    def __init__(self, *, has_parts: bool = False) -> None:
        self.sums = dict.fromkeys(LINES, RowSum())
        self.parts: dict[tuple[str, str, int], int] | None = {} if has_parts else None
        """By table, stream and number."""

    def add(self, id: str, part: Segment) -> None:
        """Count the lines of a part."""
        header = part.header
        digest = sum(line_digest(id, header.sequence, header.generation, line.offset) for line in part.lines)
        table = table_of(part)
        self.sums[table] = self.sums[table].plus(len(part.lines), digest)
        if self.parts is not None:
            self.parts[table, id, header.sequence] = len(part.lines)


def table_of(part: Segment) -> str:
    """Return the table that has the lines of a part."""
    return LINES[0] if part.header.kind in LINE_KINDS else LINES[1]


class DeviceReader:
    """Reads the segments of devices, and how far each is in the tables."""

    def __init__(
        self, lake: Lake, object_store: SegmentStore, trust: LakeTrust, forget: ForgetFilter, *, is_full: bool
    ) -> None:
        self.forget, self.is_full = forget, is_full
        self._lake, self._object_store, self._trust = lake, object_store, trust
        self.taken: dict[str, int] = {}
        """By stream with a chain of its own: its last segment in the tables."""
        for name in LINES:
            self.taken |= lake.versions(name)
        self.reads = 0
        """How many segments were read."""
        # In a lake of version 1 an id belongs to the device that comes first: only the listing of all says to whom.
        self._listing = list_streams(object_store, None, lake.stream_id) if lake.version < 2 else None

    def read_sources(self, bucket: int) -> dict[str, dict[str, SourceRow]]:
        """Return the rows of `sources` of all devices in a bucket, by device and stream."""
        query = f"SELECT org, device, id, sequence, digest, all_lines FROM t WHERE bucket = {bucket}"
        found: dict[str, dict[str, SourceRow]] = {}
        for org, device, id, *rest in self._lake.rows("sources", query):
            found.setdefault(f"{org}/{device}", {})[id] = SourceRow(*rest)
        return found

    def marks(self, home: str) -> tuple[ChainMark, ChainMark, ChainMark]:
        """Return how far the chain of a device is in `entries`, in `side_files`, and in all tables."""
        lines, side = (read_mark(self._lake.versions(name), home) for name in LINES)
        # `side_files` is committed first, and not always.
        return lines, max(lines, side, key=lambda mark: mark.sequence), read_mark(self._lake.versions("sources"), home)

    def chain_homes(self) -> set[str]:
        """Return the devices of which a chain was ingested."""
        prefix = chain_app("")
        return {app.removeprefix(prefix) for app in self._lake.versions(LINES[0]) if app.startswith(prefix)}

    def compare(
        self,
        home: str,
        known: VerifiedDevice | None,
        sources: Mapping[str, SourceRow],
        heartbeat: DeviceHeartbeat | None,
        manifest: DeviceManifest | None,
    ) -> DeviceComparison:
        """Compare the segments of a device with its words and with the tables; `known` was verified earlier."""
        listing = self._list(home)
        problems = [LakeProblem("not a segment", bad.name, bad.reason) for bad in listing.strays]
        listed = listing.chains.get(home, [])
        chain = _ChainComparison(self, home, listed, known)
        problems += [*chain.problems, *self._compare_trust(home, listed)]
        streams = self._compare_streams(listing, sources, known)
        problems += streams.problems
        ids = listing.streams.keys() | sources.keys()
        if not listed:
            gone = ((id, row) for id, row in sources.items() if id not in listing.streams)
            problems += [
                LakeProblem("segments no longer exist", id, f"all {row.sequence:,} of its segments are gone")
                for id, row in gone
            ]
        if manifest is not None:
            problems += self._compare_manifest(manifest, listing, sources)
        if heartbeat is not None:
            problems += self._compare_heartbeat(heartbeat, listed, sources)
        elif known is not None and known.has_heartbeat:
            problems.append(LakeProblem("missing heartbeat", home, "it was there when the device was last verified"))
        lines: dict[str, RowSum] | None = None
        if chain.is_complete and streams.is_complete:
            lines = {name: chain.tables[name].plus(*streams.counts.sums[name]) for name in LINES}
            derived = {one.what for one in problems} & {"not derived", "segments no longer exist"}
            rows, told = sum(one.rows for one in lines.values()), sum(row.lines for row in sources.values())
            # Only then are all of them in `sources`.
            if not derived and chain.is_derived and rows != told:
                problems.append(LakeProblem("lines", home, f"the segments have {rows:,}, `sources` {told:,}"))
        lasting = [one for one in problems if one.what != "not in the tables"]
        verified = None
        if lines is not None and not lasting:
            verified = VerifiedDevice(
                day=chain.end.day, sequence=chain.end.sequence, digest=chain.end.digest, objects=chain.objects,
                lines=chain.counts.sums, stream_objects=streams.objects, stream_lines=streams.counts.sums,
                has_heartbeat=heartbeat is not None,
            )  # fmt: skip
        segments = len(listed) + sum(
            len(objects) for one in listing.streams.values() for objects in one.segments.values()
        )
        return DeviceComparison(problems, segments, len(ids), lines, verified, frozenset(chain.new_streams))

    def check_segment(self, home: str, received: ReceivedSegment) -> str | None:
        """Return why a segment of a device is refused; None if it is not."""
        trust, (lines, _, _) = self._trust.device(home), self.marks(home)
        # What is in the tables stays, even if keys are required since.
        return (trust.check_known if received.header.sequence <= lines.sequence else trust.check_new)(received)

    def _compare_trust(self, home: str, listed: Sequence[ListedObject]) -> Iterator[LakeProblem]:
        """Yield the segments that were sent after a device was revoked, or that its record cannot be read."""
        trust = self._trust.device(home)
        if trust.refusal is not None:
            yield LakeProblem("device record", home, trust.refusal)
        first = trust.revoked_from
        late = [number for number in group_by_number(listed) if first is not None and number >= first]
        if first is not None and late:
            sent = f"segments {min(late):,} to {max(late):,} were sent"
            yield LakeProblem("revoked device", home, f"{sent} with a device key that is revoked from {first:,} on")

    def read_parts(self, home: str) -> tuple[dict[tuple[str, str, int], int], bool]:
        """Read all segments of a device; return the lines of each part in the tables, and whether that is all."""
        counts = LineCounts(has_parts=True)
        listing, (lines, side, _) = self._list(home), self.marks(home)
        position, bad = BEGINNING, list[BadSegment]()
        digest_of = self.forget.original_digest
        for segment in follow_device_chain(self.get, listing.chains.get(home, []), BEGINNING, bad, digest_of=digest_of):
            if segment.mark.sequence > side.sequence:
                break
            position = segment.mark
            for entry, stored in stored_parts(segment):
                part = decode_part(self.forget.apply(home, segment.mark.sequence, stored).data)
                if segment.mark.sequence <= lines.sequence or table_of(part) == LINES[1]:
                    counts.add(self._lake.stream_id(*segment.name[:2], entry.stream), part)
        # Of a chain that is gone as a whole no row has a segment; behind a gap some have.
        is_complete = position.sequence >= lines.sequence or home not in listing.chains
        for stream in listing.streams.values():
            number, taken = 0, self.taken.get(stream.id, 0)
            for read in follow_chain(self.get, stream, bad, digest_of):
                number = read.segment.header.sequence
                if number <= taken:
                    counts.add(stream.id, self.forget.apply_read(home, read).segment)
            # What comes after a segment that is gone has no segment either, but behind a gap there are some.
            has_gap = stream.last < max(stream.segments)
            is_complete = is_complete and not has_gap and number >= min(taken, stream.last)
        assert counts.parts is not None
        return counts.parts, is_complete

    def get(self, name: str) -> bytes | None:
        """Return a segment; None if there is none."""
        self.reads += 1
        return self._object_store.get(name)

    def _list(self, home: str) -> SegmentListing:
        """Return what there is of a device."""
        if self._listing is None:
            return list_streams(self._object_store, [home], self._lake.stream_id)
        every, folder = self._listing, f"{SEGMENTS}/{home}/"
        return SegmentListing(
            {id: stream for id, stream in every.streams.items() if stream.home == home},
            [bad for bad in every.strays if bad.name.startswith(folder)],
            {home: every.chains[home]} if home in every.chains else {},
        )

    def stream_id(self, org: str, device: str, name: str) -> str:
        """Return the id that a stream has in the tables."""
        return self._lake.stream_id(org, device, name)

    def _compare_streams(
        self, listing: SegmentListing, sources: Mapping[str, SourceRow], known: VerifiedDevice | None
    ) -> _StreamsComparison:
        """Compare the streams of a device that have chains of their own."""
        counted = [
            one
            for stream in listing.streams.values()
            for number, objects in stream.segments.items()
            for one in objects
            if number <= self.taken.get(stream.id, 0)
        ]
        found = _StreamsComparison([], LineCounts(), digest_listing(counted), True)
        is_same = known is not None and known.stream_objects == found.objects
        for stream in listing.streams.values():
            found.problems.extend(self._compare_stream(stream, sources.get(stream.id), found.counts, is_same=is_same))
        if is_same and known is not None:
            found.counts.sums = dict(known.stream_lines)
        return found._replace(is_complete=not any(one.what in _UNREADABLE for one in found.problems))

    def _compare_stream(
        self, stream: SegmentChain, row: SourceRow | None, counts: LineCounts, *, is_same: bool
    ) -> Iterator[LakeProblem]:
        taken, highest, readable = self.taken.get(stream.id, 0), max(stream.segments), 0
        if stream.last < highest:
            yield LakeProblem("gap", stream.path, f"segment {stream.last + 1:,} is missing, segment {highest:,} exists")
        # Objects that were verified and are the same are not read again, others are.
        if not is_same or stream.last > taken or any(len(objects) > 1 for objects in stream.segments.values()):
            bad: list[BadSegment] = []
            for read in follow_chain(self.get, stream, bad, self.forget.original_digest):
                readable = read.segment.header.sequence
                kept = self.forget.apply_read(stream.home, read)
                if kept is not read and self.is_full:
                    yield _not_forgotten(stream.segments[readable][0].name, 1)
                if readable <= taken:
                    counts.add(stream.id, kept.segment)
                if (
                    row is not None
                    and (readable, read.digest) != (row.sequence, row.digest)
                    and readable == row.sequence
                ):
                    name = stream.segments[readable][0].name
                    yield LakeProblem("exchanged segment", name, "it is not the one that was ingested")
            yield from (LakeProblem("bad segment", segment.name, segment.reason) for segment in bad)
            if readable > taken:
                yield LakeProblem("not in the tables", stream.path, f"segments {taken + 1:,} to {readable:,}")
        if stream.last < taken:
            words = f"{taken:,} in the tables, {stream.last:,} in the object store"
            yield LakeProblem("segments no longer exist", stream.path, words)
        if taken and (row is None or row.sequence < taken):
            yield LakeProblem("not derived", stream.path, f"only its lines up to segment {taken:,} are in the tables")

    def _compare_manifest(
        self, manifest: DeviceManifest, listing: SegmentListing, sources: Mapping[str, SourceRow]
    ) -> Iterator[LakeProblem]:
        """Yield what the manifest of a device says and is not so."""
        for name, sent in manifest.streams.items():
            id = self._lake.stream_id(manifest.org, manifest.device, name)
            there = listing.streams[id].segments if id in listing.streams else {}
            missing = _find_missing(sent.sequence, there)
            if missing:
                yield LakeProblem(
                    "missing segments", f"{manifest.org}/{manifest.device}/{name}", _describe_numbers(missing)
                )
            row = sources.get(id)
            # A manifest may be behind, and an ingest too: digests of different segments cannot be compared.
            if row is not None and row.sequence == sent.sequence:
                if row.digest != sent.digest:
                    yield LakeProblem("digest", id, "the last segment is not the one that the device sent")
                # A device counts what it has sent, also if that was forgotten since.
                is_less = row.lines < sent.lines and self.forget.rules.number(f"{manifest.org}/{manifest.device}")
                if row.lines != sent.lines and not is_less:
                    yield LakeProblem("lines", id, f"the device sent {sent.lines:,}, the segments have {row.lines:,}")

    def _compare_heartbeat(
        self, heartbeat: DeviceHeartbeat, listed: Sequence[ListedObject], sources: Mapping[str, SourceRow]
    ) -> Iterator[LakeProblem]:
        """Yield what a device says it has sent, and is not so."""
        home, numbers = f"{heartbeat.org}/{heartbeat.device}", group_by_number(listed)
        missing = _find_missing(heartbeat.segments, numbers)
        if missing:
            yield LakeProblem("missing segments", home, _describe_numbers(missing))
        lines, _, derived = self.marks(home)
        # It may be behind, and an ingest too: digests of different segments cannot be compared.
        if heartbeat.segments != lines.sequence or not heartbeat.digest or not lines.sequence:
            return
        if not _is_digest(heartbeat.digest, lines.digest):
            yield LakeProblem("digest", home, "the last segment is not the one that the device sent")
        count = sum(row.lines for row in sources.values())
        # A device counts what it has sent, also if that was forgotten since.
        is_less = count < heartbeat.lines and self.forget.rules.concerns(heartbeat.org, home)
        if derived == lines and count != heartbeat.lines and not is_less:
            yield LakeProblem("lines", home, f"the device sent {heartbeat.lines:,}, the segments have {count:,}")


_UNREADABLE = frozenset({"gap", "bad segment", "segments no longer exist", "exchanged segment"})
"""Problems after which not all lines of a device are known."""


class _StreamsComparison(NamedTuple):
    problems: list[LakeProblem]
    counts: LineCounts
    objects: str
    is_complete: bool


class _ChainComparison:
    """The chain of a device, compared with the tables."""

    def __init__(
        self, reader: DeviceReader, home: str, listed: Sequence[ListedObject], known: VerifiedDevice | None
    ) -> None:
        self._reader, self._home, self._numbers = reader, home, group_by_number(listed)
        self.problems: list[LakeProblem] = []
        self.counts = LineCounts()
        """Of the segments up to the mark of `entries`."""
        self.new_streams: set[str] = set()
        self._lines, self._side, self._derived = reader.marks(home)
        self.is_derived = self._derived == self._lines
        self.end = BEGINNING
        self._compare_numbers()
        self._start = self._known_start(known)
        exchanged = self._exchanged(is_same=self._start == self._lines)
        self._follow([one for one in listed if one.name not in exchanged])
        self.is_complete = self.end.sequence == self._lines.sequence and not exchanged
        self.objects = digest_listing(self._up_to(self.end.sequence))

    @property
    def tables(self) -> dict[str, RowSum]:
        """The lines that each table must have: `side_files` may be ahead."""
        return {LINES[0]: self.counts.sums[LINES[0]], LINES[1]: self._ahead}

    def _compare_numbers(self) -> None:
        numbers, lines, highest = self._numbers, self._lines, max(self._numbers, default=0)
        last = last_before_gap(numbers)
        if last < highest:
            self._say("gap", self._home, f"segment {last + 1:,} is missing, segment {highest:,} exists")
        if highest < lines.sequence:
            words = f"{lines.sequence:,} in the tables, {highest:,} in the object store"
            self._say("segments no longer exist", self._home, words)
        if self._derived.sequence < lines.sequence:
            words = f"only its lines up to segment {lines.sequence:,} are in the tables"
            self._say("not derived", self._home, words)

    def _known_start(self, known: VerifiedDevice | None) -> ChainMark:
        """Return where reading begins: after what was verified if nothing has changed there, else at the beginning."""
        # After a lake was restored its mark may be lower than what was verified.
        is_same = (
            known is not None
            and known.sequence <= self._lines.sequence
            and known.objects == digest_listing(self._up_to(known.sequence))
        )
        self._ahead = RowSum()
        if known is None or not is_same:
            return BEGINNING
        self.counts.sums = dict(known.lines)
        self._ahead = known.lines[LINES[1]]
        self.end = ChainMark(known.day, known.sequence, known.digest)
        return self.end

    def _exchanged(self, *, is_same: bool) -> set[str]:
        """Return the last ingested segment if another object is there in its place."""
        found, objects = set(), self._numbers.get(self._lines.sequence, ())
        for item, _ in objects if len(objects) == 1 and not is_same else ():
            data = self._reader.get(item.name)
            if data is not None and not _is_digest(self._original_digest(item.name, data), self._lines.digest):
                self._say("exchanged segment", item.name, "it is not the one that was ingested")
                found.add(item.name)
        return found

    def _original_digest(self, name: str, data: bytes) -> str:
        """Return the digest with which a chain continues; nothing if it was rewritten and has no valid tombstone."""
        try:
            return self._reader.forget.original_digest(name, data, read_original(data))
        except (Unreadable, Refused):
            return ""

    def _follow(self, listed: Sequence[ListedObject]) -> None:
        """Read the segments after the start, and count the lines of those that are in the tables."""
        bad, readable = list[BadSegment](), self._start.sequence
        new = [one for number, pairs in group_by_number(listed).items() if number > readable for one, _ in pairs]
        check, forget = partial(self._reader.check_segment, self._home), self._reader.forget
        for segment in follow_device_chain(
            self._reader.get, new, self._start, bad, check=check, digest_of=forget.original_digest
        ):
            number = segment.mark.sequence
            if number <= self._side.sequence:
                try:
                    sent = list(stored_parts(segment))
                    kept = [forget.apply(self._home, number, stored) for _, stored in sent]
                    parts = [(entry.stream, decode_part(one.data)) for (entry, _), one in zip(sent, kept, strict=True)]
                except Unreadable as error:
                    bad.append(BadSegment(segment.listed.name, segment.listed.size, error.message))
                    break
                changed = sum(stored is not one for (_, stored), one in zip(sent, kept, strict=True))
                if changed and self._reader.is_full:
                    self.problems.append(_not_forgotten(segment.listed.name, changed))
                for stream, part in parts:
                    self._count(self._reader.stream_id(*segment.name[:2], stream), part, number)
            readable = number
            if number <= self._lines.sequence:
                self.end = segment.mark
        self.problems += [LakeProblem("bad segment", segment.name, segment.reason) for segment in bad]
        if readable > self._lines.sequence:
            self._say("not in the tables", self._home, f"segments {self._lines.sequence + 1:,} to {readable:,}")

    def _count(self, id: str, part: Segment, number: int) -> None:
        if number > self._derived.sequence:
            self.new_streams.add(id)
        if number <= self._lines.sequence:
            self.counts.add(id, part)
            self._ahead = self.counts.sums[LINES[1]]
        elif table_of(part) == LINES[1]:
            ahead = LineCounts()
            ahead.add(id, part)
            self._ahead = self._ahead.plus(*ahead.sums[LINES[1]])

    def _up_to(self, last: int) -> list[ListedObject]:
        return [one for number, pairs in self._numbers.items() if number <= last for one, _ in pairs]

    def _say(self, what: str, where: str, words: str) -> None:
        self.problems.append(LakeProblem(what, where, words))


def _not_forgotten(name: str, parts: int) -> LakeProblem:
    words = f"it holds what was forgotten, in {parts:,} parts: run `lake forget` again"
    return LakeProblem("not forgotten", name, words)


def bucket_of(home: str) -> int:
    """Return the bucket of a device (`org/device`)."""
    org, _, device = home.partition("/")
    return device_bucket(org, device)


def _find_missing(last: int, there: Container[int]) -> list[int]:
    """Return the numbers up to a last one that are not there: one more than are named, at most."""
    # A device can say any number: all of them would not fit into memory.
    return list(islice((number for number in range(1, last + 1) if number not in there), _NAMED + 1))


def _describe_numbers(missing: Sequence[int]) -> str:
    return ", ".join(map(str, missing[:_NAMED])) + (" …" if len(missing) > _NAMED else "")


def _is_digest(digest: str, shortened: int) -> bool:
    try:
        return shorten_digest(digest) == shortened
    except ValueError:
        return False
