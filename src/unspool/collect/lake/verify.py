"""Compares manifests, segments and tables of a lake and reports what is wrong.

Rules
  1. What a device says it sent must be there as segments, without gap, and in the tables, line by line.
  2. What is in the tables must have come from a segment that is there, and be there once.
  3. Names and numbers are compared; of the segments themselves only those are read that are nowhere else accounted for.
     The name of a segment has the digest of the one before it, and a manifest that of the last: so the digests of what
     was ingested stand for all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from unspool.collect.lake.lake import Lake
from unspool.collect.lake.streams import BadSegment, SegmentChain, follow_chain, list_streams
from unspool.collect.lake.tables import DERIVED, LINES
from unspool.collect.manifest import FOLDER, DeviceManifest, SentStream, decode_manifest
from unspool.collect.object_store import SegmentStore
from unspool.errors import Unreadable


class LakeProblem(NamedTuple):
    """Something that is not as it should be."""

    what: str
    where: str
    words: str


class LakeVerification(NamedTuple):
    """What was compared, and what is wrong."""

    devices: int
    streams: int
    segments: int
    lines: int
    responses: int
    problems: tuple[LakeProblem, ...]


class _Known(NamedTuple):
    """What the tables say of a stream."""

    sequence: int
    digest: str
    lines: int


class _Rows(NamedTuple):
    """The rows of a stream that came in one segment."""

    rows: int
    places: int
    """Rows that are of different places."""


def verify_lake(lake: Lake, place: SegmentStore) -> LakeVerification:
    """Compare everything."""
    problems: list[LakeProblem] = []
    for name in (*LINES, *DERIVED, "answers", "responses", "sources"):
        lake.table(name, fresh=True)  # the tables first: what comes meanwhile is in the listing, and is looked at again
    comparing = _Comparing(lake)
    manifests = list(_manifests(place, problems))
    found = list_streams(place)
    problems += [LakeProblem("not a segment", bad.name, bad.reason) for bad in found.strays]
    for manifest in manifests:
        problems += _promised(manifest, found.streams)
    segments = 0
    for stream in found.streams.values():
        segments += sum(map(len, stream.segments.values()))
        problems += comparing.stream(place, stream)
    sent = {id: one for manifest in manifests for id, one in manifest.streams.items()}
    problems += comparing.digests(sent)
    problems += comparing.rows(found.streams)
    problems += comparing.derived()
    lines = sum(one.rows for some in comparing.by_segment.values() for one in some.values())
    devices = len({one.home for one in found.streams.values()})
    return LakeVerification(
        devices, len(found.streams), segments, lines, comparing.responses(problems), tuple(problems)
    )


class _Comparing:
    """The tables, as far as they are compared."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        query = "SELECT id, sequence, digest, all_lines FROM t"
        self._known = {id: _Known(*rest) for id, *rest in lake.rows("sources", query)}
        self._taken: dict[str, int] = {}
        self.by_segment: dict[str, dict[int, _Rows]] = {}
        for name in LINES:
            self._taken |= lake.versions(name)
            query = """SELECT stream, sequence, count(*), count(DISTINCT concat(generation, ':', "offset")) FROM t
                GROUP BY stream, sequence"""
            for stream, sequence, rows, places in lake.rows(name, query):
                self.by_segment.setdefault(stream, {})[sequence] = _Rows(rows, places)

    def stream(self, place: SegmentStore, stream: SegmentChain) -> Iterator[LakeProblem]:
        """Yield what is wrong with a stream whose segments are there."""
        taken, known = self._taken.get(stream.id, 0), self._known.get(stream.id)
        highest = max(stream.segments)
        if stream.last < highest:
            yield LakeProblem("gap", _place(stream), f"segment {stream.last + 1:,} is missing, {highest:,} is there")
        if stream.last > taken or any(len(some) > 1 for some in stream.segments.values()):
            bad: list[BadSegment] = []
            readable = sum(1 for _ in follow_chain(place.get, stream, bad))
            yield from (LakeProblem("bad segment", one.name, one.reason) for one in bad)
            if readable > taken:
                yield LakeProblem("not in the tables", _place(stream), f"segments {taken + 1:,} to {readable:,}")
        if stream.last < taken:
            words = f"{taken:,} are in the tables, {stream.last:,} in the store"
            yield LakeProblem("segments have gone", _place(stream), words)
        if taken and (known is None or known.sequence < taken):
            yield LakeProblem(
                "not derived", _place(stream), f"its lines are there up to segment {taken:,}, no other rows"
            )

    def digests(self, sent: dict[str, SentStream]) -> Iterator[LakeProblem]:
        """Yield where manifests and tables do not agree."""
        for id, one in sent.items():
            known = self._known.get(id)
            if known is not None and known.sequence == one.sequence:
                if known.digest != one.digest:
                    yield LakeProblem("digest", id, "the last segment is not the one that the device sent")
                if known.lines != one.lines:
                    yield LakeProblem("lines", id, f"the device sent {one.lines:,}, the segments have {known.lines:,}")

    def rows(self, streams: dict[str, SegmentChain]) -> Iterator[LakeProblem]:
        """Yield what is wrong with rows of lines."""
        for id, segments in self.by_segment.items():
            there = streams[id].segments if id in streams else {}
            for sequence, found in segments.items():
                if sequence not in there:
                    yield LakeProblem("rows without a segment", f"{id}/{sequence}", f"{found.rows:,}")
                if found.rows != found.places:
                    yield LakeProblem("double rows", f"{id}/{sequence}", f"{found.rows - found.places:,}")
        for id, known in self._known.items():
            rows = sum(found.rows for number, found in self.by_segment.get(id, {}).items() if number <= known.sequence)
            if rows != known.lines:
                yield LakeProblem("lines", id, f"the segments have {known.lines:,}, the tables {rows:,}")

    def derived(self) -> Iterator[LakeProblem]:
        """Yield rows whose stream is not known."""
        for name in (*DERIVED, "answers", "responses"):
            ids = {id for (id,) in self._lake.rows(name, "SELECT DISTINCT source_id FROM t")}
            for id in sorted(ids - self._known.keys() - self._taken.keys()):
                yield LakeProblem("rows without a stream", f"{name}/{id}", "no segment of it was ever ingested")

    def responses(self, problems: list[LakeProblem]) -> int:
        """Return how many responses count; each does so once, and none is missing."""
        query = "SELECT org, device, count(*), count(DISTINCT response_id) FROM t GROUP BY org, device"
        counted = {(org, device): (rows, ids) for org, device, rows, ids in self._lake.rows("responses", query)}
        said = {(org, device): ids for org, device, _, ids in self._lake.rows("answers", query)}
        for home in sorted({*counted, *said}):
            rows, ids = counted.get(home, (0, 0))
            if rows != ids:
                problems.append(LakeProblem("double responses", "/".join(home), f"{rows - ids:,}"))
            if ids != said.get(home, 0):
                words = f"{said.get(home, 0):,} were billed, {ids:,} count"
                problems.append(LakeProblem("responses", "/".join(home), words))
        return sum(rows for rows, _ in counted.values())


def _manifests(place: SegmentStore, problems: list[LakeProblem]) -> Iterator[DeviceManifest]:
    for found in place.names(FOLDER):
        data = place.get(found.name)
        if data is None or not found.name.endswith(".json"):
            continue
        try:
            yield decode_manifest(data, found.name)
        except Unreadable as error:
            problems.append(LakeProblem("manifest", found.name, error.message))


def _promised(manifest: DeviceManifest, streams: dict[str, SegmentChain]) -> Iterator[LakeProblem]:
    """Yield what a device says it sent and is not there."""
    for id, sent in manifest.streams.items():
        there = streams[id].segments if id in streams else {}
        missing = [number for number in range(1, sent.sequence + 1) if number not in there]
        if missing:
            words = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
            yield LakeProblem("missing segments", f"{manifest.org}/{manifest.device}/{id}", words)


def _place(stream: SegmentChain) -> str:
    return f"{stream.home}/{stream.id}"
