"""Ingests that run: once or for good, in one process or several. Segments in, a report out.

Rules
  1. A round looks at what there is, does it, and tells what is bad. Nothing of it is remembered but to save work.
  2. While it follows, devices whose manifest has not changed are not listed again, but once in a while they are: a
     manifest is a hint.
  3. Workers share nothing but the tables. They end when the one who started them ends.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from unspool.collect import manifest
from unspool.collect.lake import quarantine
from unspool.collect.lake.ingest import LANES, Done, Wishes, batches, ingest, lane, pending
from unspool.collect.lake.opened import Lake, open_lake, open_source
from unspool.collect.lake.streams import Bad, Stream, listed
from unspool.collect.places import Place
from unspool.errors import Unreadable, UnspoolError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

EVERY = 10.0
"""Seconds between rounds."""
_ALL = 600.0
"""Seconds after which all devices are listed."""

Environment = Mapping[str, str]


class Report(NamedTuple):
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
    bad: tuple[Bad, ...] = ()
    seconds: float = 0.0

    def plus(self, done: Done | Report) -> Report:
        """Return the sum."""
        return self._replace(
            streams=self.streams + done.streams,
            segments=self.segments + done.segments,
            lines=self.lines + done.lines,
            bytes=self.bytes + done.bytes,
            conflicts=self.conflicts + done.conflicts,
        )

    def joined(self, other: Report) -> Report:
        """Return what two have done at the same time."""
        return self.plus(other)._replace(
            waiting=self.waiting + other.waiting,
            bad=tuple(sorted({*self.bad, *other.bad})),
            seconds=max(self.seconds, other.seconds),
        )


class Job(NamedTuple):
    """What is to be ingested, and where to."""

    source: str
    lake: str
    again: bool = False
    workers: int = 1
    fault: Callable[[Environment], Callable[[str], None]] | None = None
    """Returns what is told of each step: for tests."""


def once(job: Job, environment: Environment) -> Report:
    """Ingest what there is."""
    if job.workers == 1:
        return Ingester(job, environment).round()
    report = Report()
    for part in _by_workers(job, follow=None):
        report = report.joined(part)
    return report


def follow(job: Job, environment: Environment, every: float = EVERY) -> Iterator[Report]:
    """Ingest what there is and what comes, and yield what each round did that did anything."""
    if job.workers > 1:
        yield from _by_workers(job, follow=every)
        return
    ingester = Ingester(job, environment)
    while True:
        began = time.monotonic()
        report = ingester.round()
        if ingester.is_news(report):
            yield report
        time.sleep(max(every - (time.monotonic() - began), 0.0))


class Ingester:
    """One worker."""

    def __init__(self, job: Job, environment: Environment, number: int = 0) -> None:
        lanes = tuple(one for one in range(LANES) if one % job.workers == number)
        at = job.fault(environment) if job.fault else lambda _: None
        self._wishes = Wishes(at, lanes, job.again)
        self._is_first = number == 0
        self._lake: Lake = open_lake(job.lake, environment)
        self._place: Place = open_source(job.source, environment)
        self._stuck: dict[str, tuple[int, list[Bad]]] = {}
        """Streams with a bad segment, and what all their objects weighed then: until that changes there is no use."""
        self._told: tuple[Bad, ...] = ()
        self._hints: dict[str, object] = {}
        self._listed_all = float("-inf")

    def round(self) -> Report:
        """Do what there is to do."""
        began = time.monotonic()
        homes = self._homes(began)
        found = listed(self._place, homes)
        self._wishes.at("listed")
        bad = list(found.strays) if self._is_first else []
        mine = [one for one in found.streams.values() if lane(one.id) in self._wishes.lanes]
        todo = [one for one in self._pending(mine) if not self._is_stuck(one)]
        report = Report(waiting=sum(one.last < max(one.segments) for one in mine))
        portions = list(batches(todo))
        random.shuffle(portions)  # others may be at it too
        for portion in portions:
            wrong: list[Bad] = []
            report = report.plus(ingest(self._lake, self._place, portion, self._wishes, wrong))
            self._remember(portion, wrong)
        bad += [one for _, some in self._stuck.values() for one in some]
        quarantine.record(self._lake, bad, is_all=homes is None and self._wishes.lanes == tuple(range(LANES)))
        self._wishes.at("quarantined")
        self._wishes.at("done")
        return report._replace(bad=tuple(bad), seconds=round(time.monotonic() - began, 6))

    def is_news(self, report: Report) -> bool:
        """Tell whether a round did anything, or found what the one before it had not."""
        told, self._told = self._told, report.bad
        return report.segments > 0 or report.bad != told

    def _homes(self, now: float) -> list[str] | None:
        """Return the devices that may have something new; nothing means all of them."""
        hints: dict[str, object] = {}
        for found in self._place.names(manifest.FOLDER):
            home = found.name.removeprefix(f"{manifest.FOLDER}/").removesuffix(".json")
            hints[home] = (found.size, found.modified)
        changed = [home for home, hint in hints.items() if self._hints.get(home) != hint]
        self._hints = hints
        if now - self._listed_all >= _ALL:
            self._listed_all = now
            return None
        return changed

    def _pending(self, streams: list[Stream]) -> Iterator[Stream]:
        """Yield the streams that have something to be done, or that somebody put another segment into."""
        found = {one.id for one in pending(self._lake, streams, again=self._wishes.again)}
        for one in streams:
            if one.id in found or any(len(some) > 1 for some in one.segments.values()):
                yield one

    def _is_stuck(self, stream: Stream) -> bool:
        return stream.id in self._stuck and self._stuck[stream.id][0] == stream.size

    def _remember(self, portion: list[Stream], wrong: list[Bad]) -> None:
        by_name = {one.name: one for one in wrong}
        for stream in portion:
            names = [found.name for some in stream.segments.values() for found in some]
            self._stuck.pop(stream.id, None)
            if bad := [by_name[name] for name in names if name in by_name]:
                self._stuck[stream.id] = (stream.size, bad)


def _by_workers(job: Job, follow: float | None) -> Iterator[Report]:
    """Run workers in processes of their own. They start afresh: the libraries' threads do not survive a fork."""
    import multiprocessing
    from multiprocessing.connection import wait

    context = multiprocessing.get_context("spawn")
    processes, open_ends = [], list["Connection"]()
    for number in range(job.workers):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, job, number, follow), daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
        open_ends.append(ours)
    ended = 0
    try:
        while open_ends:
            for ready in wait(open_ends):
                end = cast("Connection", ready)
                try:
                    said: Report | UnspoolError = end.recv()
                except EOFError:
                    open_ends.remove(end)
                    continue
                if isinstance(said, UnspoolError):
                    raise said
                yield said
    finally:
        for end in open_ends:
            end.close()
        for process in processes:
            process.join()
            ended += process.exitcode != 0
    if ended:
        raise Unreadable(
            "a worker was ended from outside", hint="what it did is whole; the next ingest goes on from there"
        )


def _work(end: Connection, job: Job, number: int, follow: float | None) -> None:
    """Do a worker's part; with `follow`, until nobody listens any more."""
    try:
        ingester = Ingester(job, os.environ, number)
        while True:
            began = time.monotonic()
            report = ingester.round()
            if follow is None:
                end.send(report)
                return
            if ingester.is_news(report):
                end.send(report)
            if end.poll(max(follow - (time.monotonic() - began), 0.0)):
                return  # nothing is ever sent this way: the other end is closed
    except UnspoolError as error:
        end.send(error)
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return
