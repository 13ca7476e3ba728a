"""Rounds of an ingest: what there is is looked at, done and told. A job in, reports out.

Rules
  1. Nothing is remembered from round to round but to save work.
  2. Listing all segments takes a twentieth of the time at most. In between, only devices are listed whose manifest has
     changed: a manifest is a hint, and may come late.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from unspool.collect import manifest
from unspool.collect.lake import quarantine
from unspool.collect.lake.ingest import LANES, Done, Wishes, batches, ingest, lane, pending
from unspool.collect.lake.opened import Lake, open_lake, open_source
from unspool.collect.lake.streams import Bad, Stream, listed
from unspool.collect.places import Place
from unspool.errors import PlaceFailed

_ALL = 600.0
"""Seconds after which all devices are listed, however long that takes."""
_SHARE = 20

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
        self._next_all = float("-inf")
        """When all devices are listed again."""

    def round(self) -> Report:
        """Do what there is to do."""
        began = time.monotonic()
        homes = self._homes(began)
        found = listed(self._place, homes)
        if homes is None:
            self._next_all = time.monotonic() + min(_SHARE * (time.monotonic() - began), _ALL)
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

    def news(self) -> Iterator[Report | PlaceFailed]:
        """Do a round; yield what it did, if it did anything or found what the one before it had not."""
        try:
            report = self.round()
        except PlaceFailed as error:
            if error.is_final:
                raise
            yield error
            return
        self._wishes = self._wishes._replace(again=False)
        told, self._told = self._told, report.bad
        if report.segments or report.bad != told:
            yield report

    def _homes(self, now: float) -> list[str] | None:
        """Return the devices that may have something new; nothing means all of them."""
        hints: dict[str, object] = {}
        for found in self._place.names(manifest.FOLDER):
            home = found.name.removeprefix(f"{manifest.FOLDER}/").removesuffix(".json")
            hints[home] = (found.size, found.modified)
        changed = [home for home, hint in hints.items() if self._hints.get(home) != hint]
        self._hints = hints
        return None if now >= self._next_all else changed

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
