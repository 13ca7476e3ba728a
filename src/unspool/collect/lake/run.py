"""Runs ingests: once or continuously, in one process or several.

Rules
  1. Nothing is remembered from round to round but to save work.
  2. Listing all segments takes a twentieth of the time at most. In between, only devices are listed whose manifest has
     changed: a manifest is a hint, and may come late.
  3. A long session is derived anew for every line that comes. So that it does not take all the time there is, it rests
     for a while after that: the longer, the longer it is, up to half a minute.
  4. Workers share nothing but the tables. They end when the process that started them ends.
  5. A continuous run that meets a store that does not answer reports it and tries again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from unspool.collect import manifest
from unspool.collect.lake import ingest as quarantine
from unspool.collect.lake.ingest import (
    LANES,
    IngestedBatch,
    IngestOptions,
    find_pending,
    ingest_batch,
    lane_of_device,
    split_into_batches,
)
from unspool.collect.lake.lake import Lake, open_lake, open_source
from unspool.collect.lake.streams import BadSegment, SegmentChain, list_streams
from unspool.collect.object_store import SegmentStore
from unspool.errors import ObjectStoreFailed, Unreadable, UnspoolError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_ALL = 600.0
"""Seconds after which all devices are listed, however long that takes."""
_SHARE = 20
_REST, _LONGEST = 100_000, 30.0
"""Bytes of segments for a second of rest; seconds at most."""

Environment = Mapping[str, str]


class IngestReport(NamedTuple):
    """What was done."""

    streams: int = 0
    """Those that had something new."""
    segments: int = 0
    lines: int = 0
    bytes: int = 0
    """Of these lines, as they were in the sources."""
    conflicts: int = 0
    """How often another writer was faster."""
    waiting: int = 0
    """Streams that wait behind a gap."""
    bad: tuple[BadSegment, ...] = ()
    seconds: float = 0.0

    def plus(self, done: IngestedBatch | IngestReport) -> IngestReport:
        """Return the sum."""
        return self._replace(
            streams=self.streams + done.streams,
            segments=self.segments + done.segments,
            lines=self.lines + done.lines,
            bytes=self.bytes + done.bytes,
            conflicts=self.conflicts + done.conflicts,
        )

    def joined(self, other: IngestReport) -> IngestReport:
        """Return what two have done at the same time."""
        return self.plus(other)._replace(
            waiting=self.waiting + other.waiting,
            bad=tuple(sorted({*self.bad, *other.bad})),
            seconds=max(self.seconds, other.seconds),
        )


class IngestJob(NamedTuple):
    """What is to be ingested, and where to."""

    source: str
    lake: str
    again: bool = False
    workers: int = 1
    fault: Callable[[Environment], Callable[[str], None]] | None = None
    """Returns what is told of each step: for tests."""


class Ingester:
    """One worker."""

    def __init__(self, job: IngestJob, environment: Environment, number: int = 0) -> None:
        lanes = tuple(one for one in range(LANES) if one % job.workers == number)
        at = job.fault(environment) if job.fault else lambda _: None
        self._wishes = IngestOptions(at, lanes, job.again)
        self._is_first = number == 0
        self._lake: Lake = open_lake(job.lake, environment)
        self._place: SegmentStore = open_source(job.source, environment)
        self._stuck: dict[str, tuple[int, list[BadSegment]]] = {}
        """Streams with a bad segment, and what all their objects weighed then: until that changes there is no use."""
        self._told: tuple[BadSegment, ...] = ()
        self._hints: dict[str, object] = {}
        self._rests: dict[str, float] = {}
        """By stream: until when it rests."""
        self._next_all = float("-inf")
        """When all devices are listed again."""

    def round(self) -> IngestReport:
        """Do what there is to do."""
        began, hints = time.monotonic(), self._manifests()
        homes = (
            None if began >= self._next_all else [home for home, hint in hints.items() if self._hints.get(home) != hint]
        )
        found = list_streams(self._place, homes)
        if homes is None:
            self._next_all = time.monotonic() + min(_SHARE * (time.monotonic() - began), _ALL)
        self._wishes.at("listed")
        bad = list(found.strays) if self._is_first else []
        mine = [one for one in found.streams.values() if lane_of_device(one.id) in self._wishes.lanes]
        owed = [one for one in self._pending(mine) if not self._is_stuck(one)]
        todo = [one for one in owed if self._rests.get(one.id, 0.0) < began]
        report = IngestReport(waiting=sum(one.last < max(one.segments) for one in mine))
        portions = list(split_into_batches(todo))
        random.shuffle(portions)  # others may be at it too
        for portion in portions:
            wrong: list[BadSegment] = []
            report = report.plus(ingest_batch(self._lake, self._place, portion, self._wishes, wrong))
            self._remember(portion, wrong)
        done = {one.id for one in todo}
        resting = {one.home for one in owed if one.id not in done}
        self._hints = {
            home: hint for home, hint in hints.items() if home not in resting
        }  # those are to be looked at again
        self._rests = {id: until for id, until in self._rests.items() if until > began}
        bad += [one for _, some in self._stuck.values() for one in some]
        quarantine.record_bad_segment(
            self._lake, bad, is_all=homes is None and self._wishes.lanes == tuple(range(LANES))
        )
        self._wishes.at("quarantined")
        self._wishes.at("done")
        return report._replace(bad=tuple(bad), seconds=round(time.monotonic() - began, 6))

    def news(self) -> Iterator[IngestReport | ObjectStoreFailed]:
        """Do a round; yield what it did, if it did anything or found what the one before it had not."""
        try:
            report = self.round()
        except ObjectStoreFailed as error:
            if error.is_final:
                raise
            yield error
            return
        self._wishes = self._wishes._replace(again=False)
        told, self._told = self._told, report.bad
        if report.segments or report.bad != told:
            yield report

    def _manifests(self) -> dict[str, object]:
        """Return what changes when a device says that it has sent something, by device."""
        found = self._place.names(manifest.FOLDER)
        names = {one.name.removeprefix(f"{manifest.FOLDER}/").removesuffix(".json"): one for one in found}
        return {home: (one.size, one.modified) for home, one in names.items()}

    def _pending(self, streams: list[SegmentChain]) -> Iterator[SegmentChain]:
        """Yield the streams that have something to be done, or that somebody put another segment into."""
        found = {one.id for one in find_pending(self._lake, streams, again=self._wishes.again)}
        for one in streams:
            if one.id in found or any(len(some) > 1 for some in one.segments.values()):
                yield one

    def _is_stuck(self, stream: SegmentChain) -> bool:
        return stream.id in self._stuck and self._stuck[stream.id][0] == stream.size

    def _remember(self, portion: list[SegmentChain], wrong: list[BadSegment]) -> None:
        by_name = {one.name: one for one in wrong}
        for stream in portion:
            names = [found.name for some in stream.segments.values() for found in some]
            self._stuck.pop(stream.id, None)
            self._rests[stream.id] = time.monotonic() + min(stream.size // _REST, _LONGEST)
            if bad := [by_name[name] for name in names if name in by_name]:
                self._stuck[stream.id] = (stream.size, bad)


EVERY = 10.0
"""Seconds between rounds."""


def run_once(job: IngestJob, environment: Environment) -> IngestReport:
    """Ingest what there is."""
    if job.workers == 1:
        return Ingester(job, environment).round()
    report = IngestReport()
    for part in _by_workers(job, follow=None):
        assert isinstance(part, IngestReport)
        report = report.joined(part)
    return report


def run_forever(
    job: IngestJob, environment: Environment, every: float = EVERY
) -> Iterator[IngestReport | ObjectStoreFailed]:
    """Ingest what there is and what comes, and yield what each round did that did anything, or why it could not."""
    if job.workers > 1:
        yield from _by_workers(job, follow=every)
        return
    ingester = Ingester(job, environment)
    while True:
        began = time.monotonic()
        yield from ingester.news()
        time.sleep(max(every - (time.monotonic() - began), 0.0))


def _by_workers(job: IngestJob, follow: float | None) -> Iterator[IngestReport | ObjectStoreFailed]:
    """Run workers in processes of their own. They start afresh: the libraries' threads do not survive a fork."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    processes, ends = [], list["Connection"]()
    for number in range(job.workers):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, job, number, follow), daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
        ends.append(ours)
    try:
        for said in _told(ends):
            match said:
                case ObjectStoreFailed(is_final=False) if follow is not None:
                    yield said
                case UnspoolError():
                    raise said
                case _:
                    yield said
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        hint = "what it did is whole; the next ingest goes on from there"
        raise Unreadable("a worker was ended from outside", hint=hint)


def _told(ends: list[Connection]) -> Iterator[IngestReport | UnspoolError]:
    """Yield what workers say until all have ended."""
    from multiprocessing.connection import wait

    while ends:
        for ready in wait(ends):
            end = cast("Connection", ready)
            try:
                yield end.recv()
            except EOFError:
                ends.remove(end)


def _work(end: Connection, job: IngestJob, number: int, follow: float | None) -> None:
    """Do a worker's part; with `follow`, until nobody listens any more."""
    try:
        ingester = Ingester(job, os.environ, number)
        while True:
            began = time.monotonic()
            if follow is None:
                end.send(ingester.round())
                return
            for told in ingester.news():
                end.send(told)
            if end.poll(max(follow - (time.monotonic() - began), 0.0)):
                return  # nothing is ever sent this way: the other end is closed
    except UnspoolError as error:
        end.send(error)
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return
