"""Compares manifests, segments and tables of a lake and reports what is wrong.

Rules
  1. Everything in a device's manifest must exist as segments without gap, and as rows in the tables.
  2. Every row in the tables must come from an existing segment, and be there once.
  3. Names and numbers are compared; only segments that the tables do not account for are read. The name of a segment
     holds the digest of the one before it, and a manifest that of the last, so the digests cover everything ingested.
  4. The last segment of a stream is read if it was put later than the one that was ingested: it may be another one.
     With `is_full` every segment is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from unspool.collect.lake.lake import Lake, missing_columns
from unspool.collect.lake.streams import BadSegment, SegmentChain, follow_chain, list_streams, modified_micros
from unspool.collect.lake.tables import DERIVED, LINES, lake_tables
from unspool.collect.lake.users import read_users
from unspool.collect.manifest import DeviceManifest, SentStream, read_manifests
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import segment_digest


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

    sequence: int
    digest: str
    lines: int
    stored: int | None
    """When the last segment was put, in microseconds since 1970; None if that was not recorded."""


class _SegmentRows(NamedTuple):
    """The number of rows that came in one segment."""

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
    segments = 0
    for stream in listing.streams.values():
        segments += sum(map(len, stream.segments.values()))
        problems += tables.compare_stream(object_store, stream, is_full=is_full)
    problems += tables.compare_known(listing.streams)
    sent = {
        lake.stream_id(manifest.org, manifest.device, name): stream
        for manifest in manifests
        for name, stream in manifest.streams.items()
    }
    problems += tables.compare_digests(sent)
    problems += tables.compare_lines(listing.streams)
    problems += tables.compare_derived()
    lines = sum(segment.rows for segments in tables.by_segment.values() for segment in segments.values())
    devices = len({stream.home for stream in listing.streams.values()})
    return LakeVerification(
        devices, len(listing.streams), segments, lines, tables.compare_responses(problems), tuple(problems)
    )


class _Tables:
    """The tables of a lake, and their comparison with segments and manifests."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        # A lake that was not ingested since the column came has none.
        is_recorded = not missing_columns(lake.table("sources"), lake_tables()["sources"])
        stored = "CAST(stored AS BIGINT)" if is_recorded else "CAST(NULL AS BIGINT)"
        query = f"SELECT id, sequence, digest, all_lines, {stored} FROM t"
        self._known = {id: _StreamRow(*rest) for id, *rest in lake.rows("sources", query)}
        self._taken: dict[str, int] = {}
        self.by_segment: dict[str, dict[int, _SegmentRows]] = {}
        for name in LINES:
            self._taken |= lake.versions(name)
            query = """SELECT stream, sequence, count(*), count(DISTINCT concat(generation, ':', "offset")) FROM t
                GROUP BY stream, sequence"""
            for stream, sequence, rows, offsets in lake.rows(name, query):
                self.by_segment.setdefault(stream, {})[sequence] = _SegmentRows(rows, offsets)

    def compare_known(self, streams: dict[str, SegmentChain]) -> Iterator[LakeProblem]:
        """Yield the streams that are in the tables and have no segment any more."""
        for id, known in self._known.items():
            if id not in streams:
                words = f"all {known.sequence:,} of its segments are gone"
                yield LakeProblem("segments no longer exist", id, words)

    def compare_stream(
        self, object_store: SegmentStore, stream: SegmentChain, *, is_full: bool
    ) -> Iterator[LakeProblem]:
        """Yield the problems of a stream that has segments."""
        taken, known = self._taken.get(stream.id, 0), self._known.get(stream.id)
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
            known = self._known.get(id)
            # A manifest may be behind, and an ingest too: digests of different segments cannot be compared.
            if known is not None and known.sequence == stream.sequence:
                if known.digest != stream.digest:
                    yield LakeProblem("digest", id, "the last segment is not the one that the device sent")
                if known.lines != stream.lines:
                    yield LakeProblem(
                        "lines", id, f"the device sent {stream.lines:,}, the segments have {known.lines:,}"
                    )

    def compare_lines(self, streams: dict[str, SegmentChain]) -> Iterator[LakeProblem]:
        """Yield the problems of the rows of lines."""
        for id, segments in self.by_segment.items():
            there = streams[id].segments if id in streams else {}
            for sequence, counts in segments.items():
                if sequence not in there:
                    yield LakeProblem("rows without a segment", f"{id}/{sequence}", f"{counts.rows:,}")
                if counts.rows != counts.offsets:
                    yield LakeProblem("double rows", f"{id}/{sequence}", f"{counts.rows - counts.offsets:,}")
        for id, known in self._known.items():
            rows = sum(
                counts.rows for number, counts in self.by_segment.get(id, {}).items() if number <= known.sequence
            )
            if rows != known.lines:
                yield LakeProblem("lines", id, f"the segments have {known.lines:,}, the tables {rows:,}")

    def compare_derived(self) -> Iterator[LakeProblem]:
        """Yield derived rows of unknown streams."""
        for name in (*DERIVED, "answers", "responses"):
            ids = {id for (id,) in self._lake.rows(name, "SELECT DISTINCT source_id FROM t")}
            for id in sorted(ids - self._known.keys() - self._taken.keys()):
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
