"""Compares manifests, segments and tables of a lake and reports what is wrong.

Rules
  1. Everything in a device's heartbeat or manifest must exist as segments without gap, and as rows in the tables.
  2. Every row in the tables must come from an existing segment, and be there once.
  3. Names and numbers are compared; only segments that the tables do not account for are read. The name of a segment
     holds the digest of the one before it, and the tables that of the last, so the digests cover everything ingested.
  4. The last ingested segment of a device is read. That of a stream with a chain of its own is read if it was put later
     than the one that was ingested: it may be another one. With `is_full` every segment is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from unspool.collect.heartbeat import DeviceHeartbeat, read_heartbeats
from unspool.collect.lake.chains import (
    BEGINNING,
    ChainMark,
    chain_app,
    follow_device_chain,
    group_by_number,
    read_mark,
    shorten_digest,
    stored_parts,
)
from unspool.collect.lake.lake import Lake, missing_columns
from unspool.collect.lake.streams import (
    BadSegment,
    SegmentChain,
    SegmentListing,
    follow_chain,
    list_streams,
    modified_micros,
)
from unspool.collect.lake.tables import DERIVED, LINES, lake_tables
from unspool.collect.lake.users import read_users
from unspool.collect.manifest import DeviceManifest, SentStream, read_manifests
from unspool.collect.object_store import ListedObject, SegmentStore
from unspool.collect.segments import decode_part_header, segment_digest
from unspool.errors import Unreadable


class LakeProblem(NamedTuple):
    """A difference between manifests, segments and tables."""

    what: str
    where: str
    words: str


class LakeVerification(NamedTuple):
    """The numbers of compared things, and the problems."""

    devices: int
    streams: int
    segments: int
    lines: int
    responses: int
    problems: tuple[LakeProblem, ...]


class _StreamRow(NamedTuple):
    """The row of a stream in `sources`."""

    home: str
    sequence: int
    digest: str
    lines: int
    stored: int | None
    """When the last segment was put, in microseconds since 1970; None if that was not recorded."""


class _SegmentRows(NamedTuple):
    """The number of rows that came in one segment or part."""

    home: str
    rows: int
    offsets: int
    """Rows with different offsets."""


def verify_lake(lake: Lake, object_store: SegmentStore, *, is_full: bool = False) -> LakeVerification:
    """Compare the manifests, the segments and the tables of a lake; with `is_full` by reading every segment."""
    problems: list[LakeProblem] = []
    for name in (*LINES, *DERIVED, "answers", "responses", "sources"):
        # The tables before the listing: then every row must have its segment there, whatever arrives meanwhile.
        lake.table(name, fresh=True)
    tables = _Tables(lake)
    damaged: list[tuple[str, str]] = []
    manifests = list(read_manifests(object_store, damaged))
    problems += [LakeProblem("manifest", name, reason) for name, reason in damaged]
    listing = list_streams(object_store, None, lake.stream_id)
    problems += [LakeProblem("not a segment", bad.name, bad.reason) for bad in listing.strays]
    users = read_users(lake)
    for manifest in manifests:
        bound = users.get(f"{manifest.org}/{manifest.device}", manifest.user)
        if bound != manifest.user:
            words = f"it says `{manifest.user}` and is bound to `{bound}`"
            problems.append(LakeProblem("user", f"{manifest.org}/{manifest.device}", words))
        problems += _missing_segments(lake, manifest, listing.streams)
    problems += _compare_chains(tables, object_store, listing, users, is_full=is_full)
    segments = sum(map(len, listing.chains.values()))
    for stream in listing.streams.values():
        segments += sum(map(len, stream.segments.values()))
        problems += tables.compare_stream(object_store, stream, is_full=is_full)
    problems += tables.compare_known(listing)
    sent = {
        lake.stream_id(manifest.org, manifest.device, name): stream
        for manifest in manifests
        for name, stream in manifest.streams.items()
    }
    problems += tables.compare_digests(sent)
    problems += tables.compare_lines(listing)
    problems += tables.compare_derived()
    lines = sum(segment.rows for segments in tables.by_segment.values() for segment in segments.values())
    devices = len({stream.home for stream in listing.streams.values()} | listing.chains.keys())
    streams = len(listing.streams.keys() | tables.known.keys())
    responses = tables.compare_responses(problems)
    return LakeVerification(devices, streams, segments, lines, responses, tuple(problems))


class _Tables:
    """The tables of a lake, and their comparison with segments and manifests."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        # A lake that was not ingested since the column came has none.
        is_recorded = not missing_columns(lake.table("sources"), lake_tables()["sources"])
        stored = "CAST(stored AS BIGINT)" if is_recorded else "CAST(NULL AS BIGINT)"
        query = f"SELECT id, concat(org, '/', device), sequence, digest, all_lines, {stored} FROM t"
        self.known = {id: _StreamRow(*rest) for id, *rest in lake.rows("sources", query)}
        self._taken: dict[str, int] = {}
        self.by_segment: dict[str, dict[int, _SegmentRows]] = {}
        for name in LINES:
            self._taken |= lake.versions(name)
            query = """SELECT stream, sequence, max(concat(org, '/', device)), count(*),
                count(DISTINCT concat(generation, ':', "offset")) FROM t GROUP BY stream, sequence"""
            for stream, sequence, *counts in lake.rows(name, query):
                self.by_segment.setdefault(stream, {})[sequence] = _SegmentRows(*counts)

    def marks(self, home: str) -> tuple[ChainMark, ChainMark]:
        """Return how far the chain of a device is in `entries` and in all tables."""
        return read_mark(self._lake.versions(LINES[0]), home), read_mark(self._lake.versions("sources"), home)

    def chain_homes(self) -> set[str]:
        """Return the devices of which a chain was ingested."""
        prefix = chain_app("")
        return {app.removeprefix(prefix) for app in self._lake.versions(LINES[0]) if app.startswith(prefix)}

    def compare_chain(
        self, object_store: SegmentStore, home: str, listed: Sequence[ListedObject], *, is_full: bool
    ) -> Iterator[LakeProblem]:
        """Yield the problems of the chain of a device."""
        lines, derived = self.marks(home)
        numbers = group_by_number(listed)
        highest = max(numbers, default=0)
        last = next(number for number in range(highest + 1) if number + 1 not in numbers)
        if last < highest:
            yield LakeProblem("gap", home, f"segment {last + 1:,} is missing, segment {highest:,} exists")
        if highest < lines.sequence:
            words = f"{lines.sequence:,} in the tables, {highest:,} in the object store"
            yield LakeProblem("segments no longer exist", home, words)
        bad: list[BadSegment] = []
        if last > lines.sequence:
            readable = lines.sequence
            for segment in follow_device_chain(object_store.get, listed, lines, bad):
                readable = segment.mark.sequence
            if readable > lines.sequence:
                yield LakeProblem("not in the tables", home, f"segments {lines.sequence + 1:,} to {readable:,}")
        if derived.sequence < lines.sequence:
            words = f"only its lines up to segment {lines.sequence:,} are in the tables"
            yield LakeProblem("not derived", home, words)
        for item, _ in numbers.get(lines.sequence, ()) if len(numbers.get(lines.sequence, ())) == 1 else ():
            data = object_store.get(item.name)
            if data is not None and shorten_digest(segment_digest(data)) != lines.digest:
                yield LakeProblem("exchanged segment", item.name, "it is not the one that was ingested")
        if is_full:
            bad.clear()
            yield from self._compare_parts(object_store, home, listed, lines, bad)
        yield from (LakeProblem("bad segment", segment.name, segment.reason) for segment in bad)

    def _compare_parts(
        self,
        object_store: SegmentStore,
        home: str,
        listed: Sequence[ListedObject],
        lines: ChainMark,
        bad: list[BadSegment],
    ) -> Iterator[LakeProblem]:
        """Read the chain of a device and yield the parts whose rows are not all there."""
        for segment in follow_device_chain(object_store.get, listed, BEGINNING, bad):
            if segment.mark.sequence > lines.sequence:
                return
            for entry, part in stored_parts(segment):
                try:
                    header = decode_part_header(part.data)
                except Unreadable as error:
                    bad.append(BadSegment(segment.listed.name, segment.listed.size, error.message))
                    return
                rows = self.by_segment.get(self._lake.stream_id(*segment.name[:2], entry.stream), {})
                count = rows[entry.sequence].rows if entry.sequence in rows else 0
                if count != header.lines:
                    words = f"part {entry.sequence:,} of `{entry.stream}` has {header.lines:,}, the tables {count:,}"
                    yield LakeProblem("lines", home, words)

    def compare_heartbeat(
        self, heartbeat: DeviceHeartbeat, listed: Sequence[ListedObject], home: str
    ) -> Iterator[LakeProblem]:
        """Yield what a device says it has sent, and is not so."""
        numbers = group_by_number(listed)
        missing = [number for number in range(1, heartbeat.segments + 1) if number not in numbers]
        if missing:
            words = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
            yield LakeProblem("missing segments", home, words)
        lines, derived = self.marks(home)
        # It may be behind, and an ingest too: digests of different segments cannot be compared.
        if heartbeat.segments != lines.sequence or not heartbeat.digest or not lines.sequence:
            return
        if not _is_digest(heartbeat.digest, lines.digest):
            yield LakeProblem("digest", home, "the last segment is not the one that the device sent")
        count = sum(row.lines for row in self.known.values() if row.home == home)
        if derived == lines and count != heartbeat.lines:
            yield LakeProblem("lines", home, f"the device sent {heartbeat.lines:,}, the segments have {count:,}")

    def compare_known(self, listing: SegmentListing) -> Iterator[LakeProblem]:
        """Yield the streams that are in the tables and have no segment any more."""
        for id, known in self.known.items():
            if id not in listing.streams and known.home not in listing.chains:
                words = f"all {known.sequence:,} of its segments are gone"
                yield LakeProblem("segments no longer exist", id, words)

    def compare_stream(
        self, object_store: SegmentStore, stream: SegmentChain, *, is_full: bool
    ) -> Iterator[LakeProblem]:
        """Yield the problems of a stream that has segments."""
        taken, known = self._taken.get(stream.id, 0), self.known.get(stream.id)
        highest = max(stream.segments)
        if stream.last < highest:
            yield LakeProblem("gap", stream.path, f"segment {stream.last + 1:,} is missing, segment {highest:,} exists")
        if is_full or stream.last > taken or any(len(objects) > 1 for objects in stream.segments.values()):
            bad: list[BadSegment] = []
            readable = sum(1 for _ in follow_chain(object_store.get, stream, bad))
            yield from (LakeProblem("bad segment", segment.name, segment.reason) for segment in bad)
            if readable > taken:
                yield LakeProblem("not in the tables", stream.path, f"segments {taken + 1:,} to {readable:,}")
        if known is not None and known.sequence in stream.segments:
            yield from _exchanged_segment(object_store, stream, known, is_full=is_full)
        if stream.last < taken:
            words = f"{taken:,} in the tables, {stream.last:,} in the object store"
            yield LakeProblem("segments no longer exist", stream.path, words)
        if taken and (known is None or known.sequence < taken):
            yield LakeProblem("not derived", stream.path, f"only its lines up to segment {taken:,} are in the tables")

    def compare_digests(self, sent: dict[str, SentStream]) -> Iterator[LakeProblem]:
        """Yield the streams whose last digest or number of lines differs between manifest and tables."""
        for id, stream in sent.items():
            known = self.known.get(id)
            # A manifest may be behind, and an ingest too: digests of different segments cannot be compared.
            if known is not None and known.sequence == stream.sequence:
                if known.digest != stream.digest:
                    yield LakeProblem("digest", id, "the last segment is not the one that the device sent")
                if known.lines != stream.lines:
                    yield LakeProblem(
                        "lines", id, f"the device sent {stream.lines:,}, the segments have {known.lines:,}"
                    )

    def compare_lines(self, listing: SegmentListing) -> Iterator[LakeProblem]:
        """Yield the problems of the rows of lines."""
        for id, segments in self.by_segment.items():
            there = listing.streams[id].segments if id in listing.streams else {}
            for sequence, counts in segments.items():
                # Whether the chain of a device is whole is compared by the numbers of its segments.
                if sequence not in there and counts.home not in listing.chains:
                    yield LakeProblem("rows without a segment", f"{id}/{sequence}", f"{counts.rows:,}")
                if counts.rows != counts.offsets:
                    yield LakeProblem("double rows", f"{id}/{sequence}", f"{counts.rows - counts.offsets:,}")
        for id, known in self.known.items():
            rows = sum(
                counts.rows for number, counts in self.by_segment.get(id, {}).items() if number <= known.sequence
            )
            if rows != known.lines:
                yield LakeProblem("lines", id, f"the segments have {known.lines:,}, the tables {rows:,}")

    def compare_derived(self) -> Iterator[LakeProblem]:
        """Yield derived rows of unknown streams."""
        for name in (*DERIVED, "answers", "responses"):
            ids = {id for (id,) in self._lake.rows(name, "SELECT DISTINCT source_id FROM t")}
            for id in sorted(ids - self.known.keys() - self._taken.keys() - self.by_segment.keys()):
                yield LakeProblem("rows without a stream", f"{name}/{id}", "none of its segments was ingested")

    def compare_responses(self, problems: list[LakeProblem]) -> int:
        """Return how many responses are counted; add a problem where one is missing or counted twice."""
        query = "SELECT org, device, count(*), count(DISTINCT response_id) FROM t GROUP BY org, device"
        counted = {(org, device): (rows, ids) for org, device, rows, ids in self._lake.rows("responses", query)}
        billed = {(org, device): ids for org, device, _, ids in self._lake.rows("answers", query)}
        for home in sorted({*counted, *billed}):
            rows, ids = counted.get(home, (0, 0))
            if rows != ids:
                problems.append(LakeProblem("double responses", "/".join(home), f"{rows - ids:,}"))
            if ids != billed.get(home, 0):
                words = f"{billed.get(home, 0):,} billed, {ids:,} counted"
                problems.append(LakeProblem("responses", "/".join(home), words))
        return sum(rows for rows, _ in counted.values())


def _compare_chains(
    tables: _Tables, object_store: SegmentStore, listing: SegmentListing, users: Mapping[str, str], *, is_full: bool
) -> Iterator[LakeProblem]:
    """Yield the problems of the chains of all devices."""
    heartbeats = {f"{beat.org}/{beat.device}": beat for beat in read_heartbeats(object_store)}
    for home in sorted({*listing.chains, *tables.chain_homes(), *heartbeats}):
        listed, heartbeat = listing.chains.get(home, []), heartbeats.get(home)
        yield from tables.compare_chain(object_store, home, listed, is_full=is_full)
        if heartbeat is not None:
            yield from tables.compare_heartbeat(heartbeat, listed, home)
            bound = users.get(home, heartbeat.user)
            if bound != heartbeat.user:
                yield LakeProblem("user", home, f"it says `{heartbeat.user}` and is bound to `{bound}`")


def _is_digest(digest: str, shortened: int) -> bool:
    try:
        return shorten_digest(digest) == shortened
    except ValueError:
        return False


def _exchanged_segment(
    object_store: SegmentStore, stream: SegmentChain, known: _StreamRow, *, is_full: bool
) -> Iterator[LakeProblem]:
    """Yield the last ingested segment of a stream if another object is there in its place."""
    for listed in stream.segments[known.sequence]:
        # Any other time needs a look: a bucket that was copied has new times and the same objects.
        if not is_full and modified_micros(listed) == known.stored:
            continue
        data = object_store.get(listed.name)
        if data is not None and segment_digest(data) != known.digest and len(stream.segments[known.sequence]) == 1:
            yield LakeProblem("exchanged segment", listed.name, "it is not the one that was ingested")


def _missing_segments(lake: Lake, manifest: DeviceManifest, streams: dict[str, SegmentChain]) -> Iterator[LakeProblem]:
    """Yield the segments that a manifest names and that do not exist."""
    for name, sent in manifest.streams.items():
        id = lake.stream_id(manifest.org, manifest.device, name)
        there = streams[id].segments if id in streams else {}
        missing = [number for number in range(1, sent.sequence + 1) if number not in there]
        if missing:
            words = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
            yield LakeProblem("missing segments", f"{manifest.org}/{manifest.device}/{name}", words)
