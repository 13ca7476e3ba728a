"""A machine that collects in this process, and helpers that read all segments of an object store row by row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.world import World, whole
from unspool.collect.collector import collect_sessions, publish_progress
from unspool.collect.enrolment import EnrolmentRequest, enrol_device
from unspool.collect.flush_schedule import FlushSchedule
from unspool.collect.heartbeat import DeviceHeartbeat
from unspool.collect.object_store import SegmentStore, open_object_store
from unspool.collect.segment_maker import CollectionPlan, CollectionReport, SegmentTools
from unspool.collect.segments import (
    FIRST,
    FIRST_DAY,
    SIZE,
    SegmentHeader,
    decode_part,
    parse_device_segment_name,
    parse_segment_name,
    segment_digest,
    unpack_device_segment,
    unpack_segment,
)
from unspool.collect.selection import CollectCandidate, SelectionRules, find_candidates
from unspool.collect.state import open_state
from unspool.redact.redactor import Redactor
from unspool.store.archive.archive import Archive
from unspool.store.database import open_archive, open_store
from unspool.store.sync.sync import SyncOptions, sync_folder

KEY = "5a" * 32


class Row(NamedTuple):
    """A line in a segment."""

    offset: int
    length: int
    raw: str
    bad: bool


class Machine:
    """Collects one config folder."""

    def __init__(
        self, folder: Path, root: Path, place: SegmentStore, choice: SelectionRules | None = None, **options: Any
    ) -> None:
        self.folder, self.root, self.place, self.choice = folder, root.resolve(), place, choice or SelectionRules()
        self.enrolment = enrol_device(folder, EnrolmentRequest("acme", "me", "d1", KEY), {})
        self._archive = options.pop("archive", True)
        self._size, self._offsets = options.pop("size", SIZE), options.pop("offsets", {})
        self._is_resting = options.pop("is_resting", lambda _: False)
        self.is_deep = False
        self._schedule = options.pop("schedule", FlushSchedule())
        self._options = options
        self.counted = 0

    @contextmanager
    def planned(self) -> Iterator[CollectionPlan]:
        """Open the databases and return the plan of a collector."""
        with (
            closing(open_store(self.folder)) as store,
            closing(open_archive(self.folder)) as archive,
            open_state(self.folder, self.place.url, "acme", "d1") as state,
        ):
            redactor = Redactor(self.enrolment.secret)
            tools = SegmentTools(
                self.enrolment,
                redactor,
                Archive(archive),
                self._clock,
                self._size,
                self._offsets,
                self._is_resting,
                self._schedule,
            )

            def refresh() -> list[CollectCandidate]:
                sync_folder(store, Archive(archive), self.root, SyncOptions(archive=self._archive, deep=self.is_deep))
                return find_candidates(store, self.root, self.choice)

            yield CollectionPlan(state, self.place, tools, refresh, lambda: 0, **self._options)

    def collect(self) -> CollectionReport:
        """Send what is new."""
        report = CollectionReport()
        with self.planned() as plan:
            collect_sessions(plan, report)
            heartbeat = DeviceHeartbeat(org="acme", user="me", device="d1", written=self._clock(), collector="1")
            publish_progress(plan, heartbeat)
        return report

    def _clock(self) -> str:
        self.counted += 1
        return f"2026-01-05T00:00:{self.counted:02d}Z"


def headers(place: SegmentStore) -> list[SegmentHeader]:
    """Return the headers of all parts, in the order in which they were sent."""
    return [header for header, _ in segments(place)]


def segments(place: SegmentStore) -> Iterator[tuple[SegmentHeader, list[Row]]]:
    """Yield all segments of an earlier version by stream, then the parts of the chain of each device.

    Names and headers must be chains without gap: of a device, and of each stream over both.
    """
    names = sorted(found.name for found in place.names("segments"))
    ends: dict[tuple[str, str], tuple[int, str]] = {}
    positions: dict[tuple[str, int], str] = {}
    chains: dict[str, tuple[int, str, str]] = {}
    for name in [one for one in names if parse_segment_name(one)]:
        parts, data = parse_segment_name(name), place.get(name)
        assert parts is not None
        assert data is not None
        number, before = ends.get((parts.device, parts.stream), (0, FIRST))
        assert (parts.sequence, parts.previous) == (number + 1, before[:16])
        ends[parts.device, parts.stream] = (parts.sequence, segment_digest(data))
        header, lines = unpack_segment(data)
        assert (header.stream, header.sequence, header.previous) == (parts.stream, number + 1, before)
        yield header, [Row(line.offset, line.length, line.raw, line.bad) for line in lines]
    for name in [one for one in names if not parse_segment_name(one)]:
        found, data = parse_device_segment_name(name), place.get(name)
        assert found is not None
        assert data is not None
        number, digest, day = chains.get(found.device, (0, FIRST, FIRST_DAY))
        assert (found.sequence, found.previous, found.day) == (number + 1, digest[:16], day)
        whole_header, inside = unpack_device_segment(data)
        assert (whole_header.sequence, whole_header.previous, whole_header.day) == (number + 1, digest, day)
        chains[found.device] = (number + 1, segment_digest(data), whole_header.next_day)
        assert inside
        for part in inside:
            header, lines = decode_part(part.text)
            number, before = ends.get((found.device, header.stream), (0, FIRST))
            assert (header.sequence, header.previous) == (number + 1, before)
            assert part.entry.before == positions.get((header.stream, number), "")
            ends[found.device, header.stream] = (header.sequence, segment_digest(part.text))
            positions[header.stream, header.sequence] = found.tail
            yield header, [Row(line.offset, line.length, line.raw, line.bad) for line in lines]


def rows(place: SegmentStore) -> dict[str, list[list[Row]]]:
    """Return the lines of every source by generation; those of one generation must not overlap."""
    found: dict[str, dict[int, list[Row]]] = {}
    ends: dict[tuple[str, int], int] = {}
    for header, lines in segments(place):
        if header.kind in {"session", "agent", "journal", "history"}:
            key = (header.source, header.generation)
            assert ends.get(key, header.start) == header.start
            ends[key] = header.end
        found.setdefault(header.source, {}).setdefault(header.generation, []).extend(lines)
    return {source: [lines for _, lines in sorted(generations.items())] for source, generations in found.items()}


def lines_of(data: bytes, *, over: bool = True) -> list[Row]:
    """Return the lines of a file, read the naive way; a torn one counts if nothing more will come."""
    found, at = list[Row](), 0
    for line in (data if over else whole(data)).split(b"\n"):
        if line.strip():
            found.append(Row(at, len(line), line.decode("utf-8", "replace"), not _is_json(line)))
        at += len(line) + 1
    return found


def expected(world: World) -> dict[str, list[list[Row]]]:
    """Return what must be collected of a world: every line of every generation that was ever synced, once."""
    found: dict[str, list[list[Row]]] = {}
    for path, generations in world.seen.items():
        last = len(generations) - 1
        made = [lines_of(data, over=number < last) for number, data in enumerate(generations)]
        if made := [lines for lines in made if lines]:
            found[str(Path(path).relative_to(world.root))] = made
    return found


def folder_place(path: Path) -> SegmentStore:
    """Open a folder as an object store."""
    return open_object_store(f"file://{path}", {})


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
