"""Ingests a batch of streams: adds their lines and derived rows to the tables, once.

Rules
  1. Lines come first. The commit that adds those of a stream records a transaction (the stream, the number of its last
     segment) on the very snapshot that was checked for it: of two ingests that add the same lines, Delta refuses one,
     which reads again.
  2. All other rows of a stream are derived from all its segments and replace those that were there. That can be
     repeated at any time; `sources` is written last and says how far it was done, so the next ingest finishes what a
     killed one began.
  3. Derived tables are guarded by a lock for each quarter of a device: a transaction whose number every commit raises.
     An ingest that finds it raised since it began starts again, so older rows never replace newer ones.
  4. A lock whose number differs between the first and the last table was left by a killed ingest, or belongs to one
     that is running: then every stream may have rows already.
  5. A stream waits behind a gap or a bad segment. Other streams do not.
  6. `quarantine` has one row for each bad object. The row of an object that is fine by now, or gone, is deleted.
  7. Old segments of a stream come from its bundle (`bundles.py`), not from the object store.
  8. If two ingests write `quarantine` at once, one of them does it, and the other in its next round.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from typing import NamedTuple

from unspool.collect.lake.billing import DeviceLock, update_billing
from unspool.collect.lake.bundles import read_bundles, write_bundles
from unspool.collect.lake.derive import DerivedStream, RowBuffer, derive_stream
from unspool.collect.lake.lake import (
    CommitConflict,
    CommitOvertaken,
    Lake,
    any_of_predicate,
    devices_predicate,
    streams_predicate,
)
from unspool.collect.lake.streams import BadSegment, SegmentChain, fetch_segments, follow_chain
from unspool.collect.lake.tables import DERIVED, LINES, lake_tables, tables_filled_by
from unspool.collect.lake.users import with_bound_user
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import parse_segment_name
from unspool.errors import ObjectStoreFailed
from unspool.store.columns import LINE_KINDS, to_record_batch

STEPS = ("listed", "read", "lines", "begun", "derived", "answered", "counted", "finished", "quarantined", "done")
"""The points where the tests kill an ingest, in order; `read` to `finished` come once for each batch, `derived` once
for each table of it."""

LANES = 4
"""The streams of a device are divided into so many parts; each part belongs to one worker."""

_FIRST_TABLE, _LAST_TABLE = DERIVED[0], "sources"
_ATTEMPTS = 40
_BATCH_BYTES = 24 * 1024 * 1024
"""Bytes of segments in a batch: some hundred megabytes of lines."""
_BATCH_STREAMS = 1000
_PARALLEL_TABLES = 2
"""Tables that are written in parallel."""


class IngestOptions(NamedTuple):
    """The part of the streams that an ingest is for, and how it works."""

    on_step: Callable[[str], None] = lambda _: None
    """Called with the name of each of `STEPS` that is reached."""
    lanes: tuple[int, ...] = tuple(range(LANES))
    """The parts of each device that are ingested."""
    again: bool = False
    """Whether to derive rows anew even without new segments."""
    users: Mapping[str, str] = {}
    """By device (`org/device`): the user that it is bound to."""


class IngestReport(NamedTuple):
    """The counts of a batch, or of one or more rounds."""

    streams: int = 0
    """Streams with new segments."""
    segments: int = 0
    lines: int = 0
    bytes: int = 0
    """Of the new lines in their sources."""
    conflicts: int = 0
    """How often another ingest was faster."""
    waiting: int = 0
    """Streams that wait behind a gap."""
    bad: tuple[BadSegment, ...] = ()
    seconds: float = 0.0

    def merged(self, other: IngestReport) -> IngestReport:
        """Return the report of two batches or rounds, which may have run at the same time."""
        return IngestReport(
            streams=self.streams + other.streams,
            segments=self.segments + other.segments,
            lines=self.lines + other.lines,
            bytes=self.bytes + other.bytes,
            conflicts=self.conflicts + other.conflicts,
            waiting=self.waiting + other.waiting,
            bad=tuple(sorted({*self.bad, *other.bad})),
            seconds=max(self.seconds, other.seconds),
        )


class _Progress(NamedTuple):
    """How far the streams of a batch are in the tables before it begins."""

    lines: dict[str, int]
    """By stream: the last segment whose lines are in the tables."""
    derived: dict[str, int]
    """By stream: the last segment that is in all tables."""
    locks: dict[str, int]
    """By lock: its highest number in any table."""
    unfinished: frozenset[str]
    """Locks that a killed ingest left, or that a running one holds."""

    @property
    def known_streams(self) -> set[str]:
        """The streams that may have derived rows, because their lines are in the tables."""
        return {*self.lines, *self.derived}


def lane_of_stream(stream: str) -> int:
    """Return the part of its device that a stream belongs to."""
    return int(stream[0], 16) % LANES


def split_into_batches(streams: Sequence[SegmentChain]) -> Iterator[list[SegmentChain]]:
    """Yield streams in batches; those of a device follow each other, so that few batches share a lock."""
    batch: list[SegmentChain] = []
    size = 0
    for stream in sorted(streams, key=lambda chain: (chain.org, chain.device, chain.id)):
        if batch and (size + stream.size > _BATCH_BYTES or len(batch) == _BATCH_STREAMS):
            yield batch
            batch, size = [], 0
        batch.append(stream)
        size += stream.size
    if batch:
        yield batch


def find_pending(lake: Lake, streams: Sequence[SegmentChain], *, again: bool = False) -> list[SegmentChain]:
    """Return the streams with new segments or unfinished rows, by names and numbers alone."""
    added = read_progress(lake)
    derived = _derived_progress(lake, sorted({(stream.org, stream.device) for stream in streams}))
    return [
        stream
        for stream in streams
        if again or stream.last > added.get(stream.id, 0) or derived.get(stream.id, 0) < added.get(stream.id, 0)
    ]


def read_progress(lake: Lake) -> dict[str, int]:
    """Return for each stream the last segment whose lines are in the tables."""
    progress: dict[str, int] = {}
    for name in LINES:
        lake.table(name, fresh=True)
        progress |= lake.versions(name)
    return progress


def ingest_batch(
    lake: Lake,
    object_store: SegmentStore,
    streams: Sequence[SegmentChain],
    options: IngestOptions,
    bad: list[BadSegment],
) -> IngestReport:
    """Bring the tables up to date with some streams; each line is added once, however many ingests run."""
    for attempt in range(_ATTEMPTS):
        bad_in_attempt: list[BadSegment] = []
        try:
            ingested = _Attempt(lake, object_store, options, is_first=attempt == 0).run(streams, bad_in_attempt)
        except CommitConflict:
            _back_off(attempt)
            continue
        bad += bad_in_attempt
        return ingested._replace(conflicts=attempt)
    message = f"too many concurrent writers on the lake at `{lake.url}`"
    raise ObjectStoreFailed(message, hint="no data is lost; try again, or run fewer ingests at once")


class _Attempt:
    """One attempt at a batch."""

    def __init__(self, lake: Lake, object_store: SegmentStore, options: IngestOptions, *, is_first: bool) -> None:
        self._lake, self._object_store, self._options, self._is_first = lake, object_store, options, is_first
        self._rows = RowBuffer()
        self._numbers: dict[str, dict[str, int]] = {}
        """By table: the number of each lock, as it was before anything was read."""

    def run(self, streams: Sequence[SegmentChain], bad: list[BadSegment]) -> IngestReport:
        """Add the lines of a batch and derive its other rows."""
        # Before any segment is read: an ingest that is slower than another must notice that it was overtaken.
        progress = self._read_progress(streams)
        bundled = {} if self._options.again else read_bundles(self._lake.object_store, streams)
        derived, segments, objects = [], 0, fetch_segments(self._object_store, streams, bundled)
        readable: list[tuple[SegmentChain, int]] = []
        for stream in streams:
            reads = list(follow_chain(objects.get, stream, bad))
            added, finished = progress.lines.get(stream.id, 0), progress.derived.get(stream.id, 0)
            # With fewer segments than the tables know, some have gone: nothing may be derived from the rest.
            if len(reads) < max(added, finished, 1) or (len(reads) == added == finished and not self._options.again):
                continue
            readable.append((stream, len(reads)))
            reads = with_bound_user(reads, self._options.users.get(stream.home))
            derived.append(derive_stream(reads, stream.id, added, self._rows))
            segments += len(reads) - added
        if not derived:
            return IngestReport()
        self._options.on_step("read")
        self._add_lines(derived, progress)
        self._options.on_step("lines")
        self._write_derived(derived, progress)
        write_bundles(self._lake.object_store, readable, objects, bundled)
        return IngestReport(
            len(derived), segments, sum(stream.lines for stream in derived), sum(stream.length for stream in derived)
        )

    def _read_progress(self, streams: Sequence[SegmentChain]) -> _Progress:
        locks = {_lock(stream.org, stream.device, stream.id) for stream in streams}
        numbers = self._numbers
        for name in (*DERIVED, "answers", _LAST_TABLE):
            self._lake.table(name, fresh=True)
            versions = self._lake.versions(name)
            numbers[name] = {lock: versions.get(lock, 0) for lock in locks}
        unfinished = frozenset(lock for lock in locks if numbers[_FIRST_TABLE][lock] != numbers[_LAST_TABLE][lock])
        homes = sorted({(stream.org, stream.device) for stream in streams})
        derived = _derived_progress(self._lake, homes)
        highest = {lock: max(by_lock[lock] for by_lock in numbers.values()) for lock in locks}
        return _Progress(read_progress(self._lake), derived, highest, unfinished)

    def _add_lines(self, derived: list[DerivedStream], progress: _Progress) -> None:
        for name in LINES:
            of_table = [stream for stream in derived if (stream.kind in LINE_KINDS) == (name == LINES[0])]
            sequences = {stream.owner.stream: stream.sequence for stream in of_table}
            before = {stream: progress.lines.get(stream, 0) for stream in sequences}
            marks = {stream: number for stream, number in sequences.items() if number > before[stream]}
            if marks:
                self._commit(name, marks, {stream: before[stream] for stream in marks}, None)

    def _write_derived(self, derived: list[DerivedStream], progress: _Progress) -> None:
        locks = {
            owner.stream: _lock(owner.org, owner.device, owner.stream) for owner in (stream.owner for stream in derived)
        }
        marks = {lock: progress.locks[lock] + 1 for lock in locks.values()}
        known = {
            stream for stream, lock in locks.items() if stream in progress.known_streams or lock in progress.unfinished
        }
        predicates = {}
        for name in DERIVED:
            of_table = [stream for stream in derived if name in tables_filled_by(stream.kind)]
            # New streams are only appended: replacing makes the library read the files that may hold old rows.
            has_rows = any(stream.owner.stream in known for stream in of_table)
            if name == _FIRST_TABLE or has_rows or self._rows.batches(name):
                predicates[name] = streams_predicate(name, of_table) if has_rows else None
        # The first table is written alone, before the others: its lock shows that this batch has begun.
        self._commit(_FIRST_TABLE, marks, self._before(_FIRST_TABLE, marks), predicates.pop(_FIRST_TABLE))
        self._options.on_step("begun")
        with ThreadPoolExecutor(_PARALLEL_TABLES) as pool:
            # Their order does not matter, and the library does the work, not Python.
            commits = [
                pool.submit(self._commit, name, marks, self._before(name, marks), predicate)
                for name, predicate in predicates.items()
            ]
            for commit in as_completed(commits):
                commit.result()
                self._options.on_step("derived")
        guard = DeviceLock(marks, self._before("answers", marks), self._options.again or not self._is_first)
        update_billing(self._lake, derived, known, guard, self._options.on_step)
        # `sources` comes last: it says that the rows of all other tables are there.
        predicate = streams_predicate(_LAST_TABLE, derived) if known else None
        self._commit(_LAST_TABLE, marks, self._before(_LAST_TABLE, marks), predicate)
        self._options.on_step("finished")

    def _before(self, name: str, marks: Mapping[str, int]) -> dict[str, int]:
        return {lock: self._numbers[name][lock] for lock in marks}

    def _commit(self, name: str, marks: dict[str, int], before: dict[str, int], where: str | None) -> None:
        """Write the rows of a table unless one of the transactions in `before` has another version by now."""
        for attempt in range(_ATTEMPTS):
            if self._lake.has_moved_on(name, before):
                raise CommitOvertaken(name)
            try:
                self._lake.write(name, self._rows.batches(name), marks, where)
            except CommitConflict:
                _back_off(attempt)
                continue
            return
        raise CommitConflict(name)


def _lock(org: str, device: str, stream: str) -> str:
    return f"{org}/{device}/{lane_of_stream(stream)}"


def _derived_progress(lake: Lake, homes: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return for each stream of some devices the last segment that is in all tables."""
    lake.table(_LAST_TABLE, fresh=True)
    if not homes:
        return {}
    query = f"SELECT id, sequence FROM t WHERE {devices_predicate(homes)}"
    progress: dict[str, int] = dict(lake.rows(_LAST_TABLE, query))
    return progress


def _back_off(attempt: int) -> None:
    # Random, so that ingests which collided do not collide again.
    time.sleep(random.random() * min(0.02 * 2**attempt, 2.0))


_TABLE = "quarantine"


def record_bad_segments(lake: Lake, bad: Sequence[BadSegment], *, is_all: bool) -> None:
    """Record bad objects in `quarantine`; with `is_all` the rows of all other objects are deleted."""
    lake.table(_TABLE, fresh=True)
    recorded: dict[str, str] = dict(lake.rows(_TABLE, "SELECT name, reason FROM t"))
    by_name = {segment.name: segment for segment in bad}
    new = [segment for name, segment in by_name.items() if recorded.get(name) != segment.reason]
    gone = [name for name in recorded if name not in by_name] if is_all else []
    try:
        if gone:
            lake.delete(_TABLE, any_of_predicate("name", gone))
        if new:
            where = any_of_predicate("name", (segment.name for segment in new))
            lake.write(_TABLE, [to_record_batch(lake_tables()[_TABLE], list(map(_row, new)))], {}, where)
    except CommitConflict:
        # Another ingest has just recorded its own; this one does so in its next round.
        return


def _row(segment: BadSegment) -> tuple[object, ...]:
    name = parse_segment_name(segment.name)
    parts = name[:4] if name else (None, None, None, None)
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    return (segment.name, *parts, segment.size, segment.reason, now)
