"""Ingests a batch of streams: adds their lines and derived rows to the tables, once.

Rules
  1. Lines come first. The commit that adds those of a stream takes its transaction (the stream, the number of its last
     segment) on the very snapshot that was asked for it: of two who add the same, one is refused and looks again.
  2. All other rows of a stream are made anew from all its segments, in the place of those that were there. That may
     be done again at any time; `sources` says last how far it was done, so what was begun is finished by the next one.
  3. Tables of derived rows are guarded by a lock for each quarter of a device: a transaction whose number each commit
     raises. Who finds it raised by another since he began begins again. So no older rows follow newer ones.
  4. A lock whose number differs between the first and the last table was left by one who was killed, or belongs to
     one who is at work: then every stream may have rows already.
  5. A stream waits behind a gap or a bad segment. It costs no other.
  6. An object is named once, with what is wrong with it. One that is in order by now, or gone, is named no longer.
  7. Two who record at once: one of them does it, and the other the next time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from typing import NamedTuple

from unspool.collect.lake.billing import DeviceLock, update_billing
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
from unspool.collect.lake.tables import DERIVED, LINES, columns_filled_by, lake_tables
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import parse_segment_name
from unspool.errors import ObjectStoreFailed
from unspool.store.columns import LINE_KINDS, to_record_batch

STEPS = ("listed", "read", "lines", "begun", "derived", "answered", "counted", "finished", "quarantined", "done")
"""The places where an ingest may be killed, in order; `read` to `finished` come once for each batch, `derived` once for
each table of it."""

LANES = 4
"""Into so many parts the streams of a device are divided; one worker has all of a part."""

_FIRST, _LAST = DERIVED[0], "sources"
_ATTEMPTS = 40
_SIZE = 24 * 1024 * 1024
"""Bytes of segments in a batch: some hundred megabytes of lines."""
_STREAMS = 1000
_AT_ONCE = 2
"""Tables that are written at once."""


class IngestOptions(NamedTuple):
    """How an ingest is to be done."""

    at: Callable[[str], None] = lambda _: None
    """Told which of `STEPS` was reached."""
    lanes: tuple[int, ...] = tuple(range(LANES))
    """Which parts of each device."""
    again: bool = False
    """Whether derived rows are to be made anew, even if nothing has come."""


class IngestedBatch(NamedTuple):
    """What became of a batch."""

    streams: int = 0
    segments: int = 0
    lines: int = 0
    bytes: int = 0
    """Of lines, as they were in the sources."""
    conflicts: int = 0


class _Standing(NamedTuple):
    """How far streams are, before a batch is done."""

    lines: dict[str, int]
    """By stream: the last segment whose lines are there."""
    derived: dict[str, int]
    """By stream: the last segment that is in all tables."""
    locks: dict[str, int]
    """By lock: its number in the first table."""
    left: frozenset[str]
    """Locks that were left, or are held."""

    @property
    def met(self) -> set[str]:
        """The streams that may have rows: lines of them are there."""
        return {*self.lines, *self.derived}


def lane_of_device(stream: str) -> int:
    """Return which part of its device a stream is in."""
    return int(stream[0], 16) % LANES


def split_into_batches(streams: Sequence[SegmentChain]) -> Iterator[list[SegmentChain]]:
    """Yield streams in portions; those of a device follow each other."""
    held: list[SegmentChain] = []
    size = 0
    for stream in sorted(streams, key=lambda one: (one.org, one.device, one.id)):
        if held and (size + stream.size > _SIZE or len(held) == _STREAMS):
            yield held
            held, size = [], 0
        held.append(stream)
        size += stream.size
    if held:
        yield held


def find_pending(lake: Lake, streams: Sequence[SegmentChain], *, again: bool = False) -> list[SegmentChain]:
    """Return the streams that have something to be done, going by names and numbers."""
    there = read_progress(lake)
    derived = _derived(lake, sorted({(one.org, one.device) for one in streams}))
    return [
        one
        for one in streams
        if again or one.last > there.get(one.id, 0) or derived.get(one.id, 0) < there.get(one.id, 0)
    ]


def read_progress(lake: Lake) -> dict[str, int]:
    """Return for each stream the last segment whose lines are in the tables."""
    found: dict[str, int] = {}
    for name in LINES:
        lake.table(name, fresh=True)
        found |= lake.versions(name)
    return found


def ingest_batch(
    lake: Lake, place: SegmentStore, streams: Sequence[SegmentChain], wishes: IngestOptions, bad: list[BadSegment]
) -> IngestedBatch:
    """Bring the tables up to date with some streams. Whoever else does so meanwhile, each line is there once."""
    for attempt in range(_ATTEMPTS):
        wrong: list[BadSegment] = []
        try:
            done = _Attempt(lake, place, wishes, is_first=attempt == 0).do(streams, wrong)
        except CommitConflict:
            _wait(attempt)
            continue
        bad += wrong
        return done._replace(conflicts=attempt)
    message = f"others write to the lake at `{lake.url}` faster than this ingest can"
    raise ObjectStoreFailed(message, hint="nothing is lost; try again, or let fewer ingest at once")


class _Attempt:
    """One attempt at a batch."""

    def __init__(self, lake: Lake, place: SegmentStore, wishes: IngestOptions, *, is_first: bool) -> None:
        self._lake, self._place, self._wishes, self._is_first = lake, place, wishes, is_first
        self._rows = RowBuffer()
        self._numbers: dict[str, dict[str, int]] = {}
        """By table: the number of each lock, as it was before anything was read."""

    def do(self, streams: Sequence[SegmentChain], bad: list[BadSegment]) -> IngestedBatch:
        """Do what there is to do."""
        standing = self._standing(streams)  # before anything is read: who is slower than another must notice
        made, segments, objects = [], 0, fetch_segments(self._place, streams)
        for stream in streams:
            reads = list(follow_chain(objects.get, stream, bad))
            here, done = standing.lines.get(stream.id, 0), standing.derived.get(stream.id, 0)
            if len(reads) < max(here, done, 1) or (len(reads) == here == done and not self._wishes.again):
                continue
            made.append(derive_stream(reads, here, self._rows))
            segments += len(reads) - here
        if not made:
            return IngestedBatch()
        self._wishes.at("read")
        self._add_lines(made, standing)
        self._wishes.at("lines")
        self._derive(made, standing)
        return IngestedBatch(len(made), segments, sum(one.lines for one in made), sum(one.length for one in made))

    def _standing(self, streams: Sequence[SegmentChain]) -> _Standing:
        locks = {_lock(stream.org, stream.device, stream.id) for stream in streams}
        numbers = self._numbers
        for name in (*DERIVED, "answers", _LAST):
            self._lake.table(name, fresh=True)
            versions = self._lake.versions(name)
            numbers[name] = {lock: versions.get(lock, 0) for lock in locks}
        left = frozenset(lock for lock in locks if numbers[_FIRST][lock] != numbers[_LAST][lock])
        homes = sorted({(one.org, one.device) for one in streams})
        derived = _derived(self._lake, homes)
        top = {lock: max(found[lock] for found in numbers.values()) for lock in locks}
        return _Standing(read_progress(self._lake), derived, top, left)

    def _add_lines(self, made: list[DerivedStream], standing: _Standing) -> None:
        for name in LINES:
            kinds = [one for one in made if (one.kind in LINE_KINDS) == (name == LINES[0])]
            ours = {one.whose.stream: one.sequence for one in kinds}
            before = {stream: standing.lines.get(stream, 0) for stream in ours}
            marks = {stream: number for stream, number in ours.items() if number > before[stream]}
            if marks:
                self._commit(name, marks, {stream: before[stream] for stream in marks}, None)

    def _derive(self, made: list[DerivedStream], standing: _Standing) -> None:
        locks = {one.whose.stream: _lock(one.whose.org, one.whose.device, one.whose.stream) for one in made}
        marks = {lock: standing.locks[lock] + 1 for lock in locks.values()}
        known = {stream for stream, lock in locks.items() if stream in standing.met or lock in standing.left}
        todo = {}
        for name in DERIVED:
            some = [one for one in made if name in columns_filled_by(one.kind)]
            there = any(one.whose.stream in known for one in some)
            if name == _FIRST or there or self._rows.batches(name):
                todo[name] = streams_predicate(name, some) if there else None
        self._commit(_FIRST, marks, self._before(_FIRST, marks), todo.pop(_FIRST))
        self._wishes.at("begun")
        with ThreadPoolExecutor(_AT_ONCE) as pool:  # their order does not matter, and the library does the work
            done = [pool.submit(self._commit, name, marks, self._before(name, marks), todo[name]) for name in todo]
            for one in as_completed(done):
                one.result()
                self._wishes.at("derived")
        guard = DeviceLock(marks, self._before("answers", marks), self._wishes.again or not self._is_first)
        update_billing(self._lake, made, known, guard, self._wishes.at)
        self._commit(_LAST, marks, self._before(_LAST, marks), streams_predicate(_LAST, made) if known else None)
        self._wishes.at("finished")

    def _before(self, name: str, marks: Mapping[str, int]) -> dict[str, int]:
        return {lock: self._numbers[name][lock] for lock in marks}

    def _commit(self, name: str, marks: dict[str, int], before: dict[str, int], where: str | None) -> None:
        """Write the rows of a table, if nobody has raised what this depends on."""
        for attempt in range(_ATTEMPTS):
            if self._lake.raised(name, before):
                raise CommitOvertaken(name)
            try:
                self._lake.write(name, self._rows.batches(name), marks, where)
            except CommitConflict:
                _wait(attempt)
                continue
            return
        raise CommitConflict(name)


def _lock(org: str, device: str, stream: str) -> str:
    return f"{org}/{device}/{lane_of_device(stream)}"


def _derived(lake: Lake, homes: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return how far the streams of some devices are in all tables."""
    lake.table(_LAST, fresh=True)
    if not homes:
        return {}
    found: dict[str, int] = dict(lake.rows(_LAST, f"SELECT id, sequence FROM t WHERE {devices_predicate(homes)}"))
    return found


def _wait(attempt: int) -> None:
    """Let others finish; not all of them look again at once."""
    time.sleep(random.random() * min(0.02 * 2**attempt, 2.0))


_TABLE = "quarantine"


def record_bad_segment(lake: Lake, bad: Sequence[BadSegment], *, is_all: bool) -> None:
    """Record what is bad; with `is_all`, nothing else is."""
    lake.table(_TABLE, fresh=True)
    there: dict[str, str] = dict(lake.rows(_TABLE, "SELECT name, reason FROM t"))
    found = {one.name: one for one in bad}
    new = [one for name, one in found.items() if there.get(name) != one.reason]
    gone = [name for name in there if name not in found] if is_all else []
    try:
        if gone:
            lake.delete(_TABLE, any_of_predicate("name", gone))
        if new:
            where = any_of_predicate("name", (one.name for one in new))
            lake.write(_TABLE, [to_record_batch(lake_tables()[_TABLE], [_row(one) for one in new])], {}, where)
    except CommitConflict:
        return


def _row(one: BadSegment) -> tuple[object, ...]:
    name = parse_segment_name(one.name)
    place = name[:4] if name else (None, None, None, None)
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    return (one.name, *place, one.size, one.reason, now)
