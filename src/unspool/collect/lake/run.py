"""Runs ingests: once or continuously, in one process or several.

Rules
  1. What is remembered from round to round only saves work.
  2. Listing all devices takes at most a twentieth of the time. In between, only those whose heartbeat or manifest has
     changed are listed: they are hints, and may come late.
  3. A session is derived anew for every new line. So that long sessions do not take all the time, a device with one, or
     a session with a chain of its own, is skipped for a while after that: the longer it is the longer, up to half a
     minute.
  4. Workers share nothing but the tables. They end when the process that started them ends.
  5. A continuous run that meets a store that does not answer reports it and tries again.
"""

from __future__ import annotations

import ctypes
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.collect import heartbeat, manifest
from unspool.collect.lake import quarantine
from unspool.collect.lake.chains import SpooledChain, chain_app, has_gap, read_mark
from unspool.collect.lake.ingest import (
    LANES,
    ChainDerivation,
    IngestBatch,
    IngestOptions,
    IngestReport,
    find_pending,
    ingest_batch,
    lake_forget_filter,
    lane_of_device,
    lane_of_stream,
    split_chains,
    split_into_batches,
)
from unspool.collect.lake.lake import Lake, open_source
from unspool.collect.lake.lifecycle.pseudonyms import open_pseudonyms
from unspool.collect.lake.lifecycle.rederivation import AgainSelection
from unspool.collect.lake.log.copied_lake import open_ingest_lake
from unspool.collect.lake.streams import BadSegment, SegmentChain, SegmentListing, list_pending
from unspool.collect.lake.tables import device_bucket
from unspool.collect.lake.trust import open_trust
from unspool.collect.lake.users import read_users
from unspool.collect.object_store import ListedObject, SegmentStore
from unspool.errors import ObjectStoreFailed, Unreadable, UnspoolError
from unspool.store import start_workers, wait_for

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_FULL_LISTING = 600.0
"""Seconds after which all devices are listed, however long that takes."""
_SHARE = 20
"""Listing all devices may take one part in so many of the time."""
_FIXED_BYTES = 272 * 1024 * 1024
"""Memory of a worker without a batch: the interpreter and its libraries."""
_BYTES_PER_BYTE = 17
"""Memory for each byte of the streams in a batch: their lines, the rows of all tables, and what their writers hold."""
_M_ARENA_MAX = -8
"""Of `mallopt`, as in `malloc.h`."""
MEMORY = 512 * 1024 * 1024
"""Bytes of memory that a worker may use, unless it is told otherwise."""
_BYTES_PER_SECOND, _LONGEST_PAUSE = 100_000, 30.0
"""A stream is skipped for one second for so many bytes of its segments, and for so many seconds at most."""

Environment = Mapping[str, str]


class IngestShard(NamedTuple):
    """A part of the devices: each belongs to one of `total` shards, which are numbered from 1 on."""

    number: int = 1
    total: int = 1

    def has(self, home: str) -> bool:
        """Return whether a device (`org/device`) belongs to this shard."""
        org, _, device = home.partition("/")
        # By bucket, as the tables are partitioned: two shards rarely write the same partition.
        return device_bucket(org, device) % self.total == self.number - 1


class IngestJob(NamedTuple):
    """Where segments are read from, which lake they go to, and with how many workers."""

    source: str
    lake: str
    again: bool = False
    workers: int = 1
    shard: IngestShard = IngestShard()
    memory: int = MEMORY
    """Bytes that each worker may use."""
    selection: AgainSelection = AgainSelection()
    """With `again`: the streams whose rows are derived anew."""
    pseudonyms: Path | None = None
    """The file with the key of a lake that has pseudonyms in place of names."""
    fault: Callable[[Environment], Callable[[str], None]] | None = None
    """Returns the callback for each of `STEPS`: for tests."""


class Ingester:
    """One worker: ingests the streams of its lanes round by round."""

    def __init__(
        self,
        job: IngestJob,
        environment: Environment,
        number: int = 0,
        derive_chains: ChainDerivation | None = None,
    ) -> None:
        _limit_arenas()
        lanes = tuple(lane for lane in range(LANES) if lane % job.workers == number)
        on_step = job.fault(environment) if job.fault else lambda _: None
        self._options = IngestOptions(
            on_step,
            lanes,
            job.again,
            self._note_size,
            batch_bytes=_batch_bytes(job.memory),
            derive_chains=derive_chains,
        )
        self._shard, self._selection = job.shard, job.selection
        self._is_first = number == 0 and job.shard.number == 1
        self._lake: Lake = open_ingest_lake(job.lake, environment)
        # An existing lake lacks the columns that came since: without them it could be neither written nor read.
        self._lake.add_missing_columns()
        key = open_pseudonyms(self._lake, job.pseudonyms)
        self._options = self._options._replace(name_user=key.name_user if key else None)
        self._object_store: SegmentStore = open_source(job.source, environment)
        self._stuck: dict[str, tuple[int, list[BadSegment]]] = {}
        """Streams and devices with a bad segment, and the size of the objects then: until it changes they are not
        tried."""
        self._sizes: dict[str, int] = {}
        """By device: bytes of the parts that were derived in this round."""
        self._reported_bad: tuple[BadSegment, ...] = ()
        self._hints: dict[str, object] = {}
        self._paused: dict[str, float] = {}
        """By stream or device: the time until which it is skipped."""
        self._next_listing = float("-inf")
        """The time when all devices are listed again."""

    def round(self) -> IngestReport:
        """Ingest the segments that are new."""
        began, hints = time.monotonic(), self._manifests()
        # Listing all devices takes long; a changed heartbeat is the hint that its device has sent something.
        homes = (
            None
            if began >= self._next_listing
            else [home for home, hint in hints.items() if self._hints.get(home) != hint and self._has_shard(home)]
        )
        listing, marks = self._list(homes)
        if homes is None:
            # A key may have been accepted since: then what waits is fine, and its size is what it was.
            self._stuck.clear()
        trust = open_trust(self._lake, self._object_store)
        self._options = self._options._replace(users=read_users(self._lake, trust.administrators), trust=trust)
        self._options.on_step("listed")
        bad = list(listing.strays) if self._is_first else []
        mine = [
            stream
            for stream in listing.streams.values()
            if lane_of_stream(stream.id) in self._options.lanes and self._has_shard(stream.home)
        ]
        pending = [stream for stream in self._pending(mine) if not self._is_stuck(stream.id, stream.size)]
        due = [stream for stream in pending if self._paused.get(stream.id, 0.0) < began]
        chains = {home: listed for home, listed in listing.chains.items() if self._has_device(home)}
        due_chains = {
            home: listed
            for home, listed in chains.items()
            if self._paused.get(home, 0.0) < began and not self._is_stuck(home, _size(listed))
        }
        waiting = sum(stream.last < max(stream.segments) for stream in mine)
        waiting += sum(has_gap(listed, read_mark(marks, home)) for home, listed in chains.items())
        report = IngestReport(waiting=waiting)
        batches = list(split_into_batches(due, self._options.batch_bytes))
        # Other ingests may work through the same streams: in the same order they would collide at every batch.
        random.shuffle(batches)
        # Those of a device must come in order. Streams that go on in the chain of their device come first.
        batches += split_chains(due_chains, self._options.batch_bytes)
        report = report.merged(self._ingest(batches, due_chains))
        ingested = {*(stream.id for stream in due), *due_chains}
        paused_homes = {stream.home for stream in pending if stream.id not in ingested} | (chains.keys() - ingested)
        # Devices with a skipped stream are forgotten, so that the next round lists them again.
        self._hints = {home: hint for home, hint in hints.items() if home not in paused_homes}
        self._paused = {id: until for id, until in self._paused.items() if until > began}
        bad += [segment for _, segments in self._stuck.values() for segment in segments]
        self._finish_round(bad, is_all=homes is None)
        return report._replace(bad=tuple(bad), seconds=round(time.monotonic() - began, 6))

    def _finish_round(self, bad: Sequence[BadSegment], *, is_all: bool) -> None:
        """Record the bad segments of a round, and what the next one can use."""
        has_all = is_all and self._options.lanes == tuple(range(LANES)) and self._shard.total == 1
        quarantine.record_bad_segments(self._lake, bad, is_all=has_all)
        self._options.on_step("quarantined")
        self._lake.finish_round()
        self._options.on_step("done")

    def _list(self, homes: Sequence[str] | None) -> tuple[SegmentListing, Mapping[str, int]]:
        """Return what devices may have sent, and the transactions that say how far it is in the tables."""
        began = time.monotonic()
        # A chain goes on where all tables have it: an ingest that was killed may have added its lines only.
        self._lake.table("sources", fresh=True)
        marks = dict(self._lake.versions("sources"))
        listing = list_pending(
            self._object_store, homes, self._lake.stream_id, lambda home: read_mark(marks, home).start(home)
        )
        if homes is None:
            self._next_listing = time.monotonic() + min(_SHARE * (time.monotonic() - began), _FULL_LISTING)
        return listing, marks

    def _ingest(self, batches: Sequence[IngestBatch], chains: Mapping[str, Sequence[ListedObject]]) -> IngestReport:
        """Ingest batches in their order; with `--again`, derive everything else anew."""
        report = IngestReport()
        self._sizes.clear()
        for batch in batches:
            bad_in_batch: list[BadSegment] = []
            report = report.merged(ingest_batch(self._lake, self._object_store, batch, self._options, bad_in_batch))
            self._remember(batch.streams, bad_in_batch)
            self._remember_chains(batch, chains, bad_in_batch)
        return report.merged(self._derive_again()) if self._options.again else report

    def round_with_news(self) -> Iterator[IngestReport | ObjectStoreFailed]:
        """Run a round; yield its report if it ingested anything or found other bad objects than the round before."""
        try:
            report = self.round()
        except ObjectStoreFailed as error:
            if error.is_final:
                raise
            yield error
            return
        # `--again` is for the first round only.
        self._options = self._options._replace(again=False)
        reported, self._reported_bad = self._reported_bad, report.bad
        if report.segments or report.bad != reported:
            yield report

    def _manifests(self) -> dict[str, object]:
        """Return the time of each device's manifest and heartbeat, which change when the device has sent something."""
        hints: dict[str, set[object]] = {}
        for listed in self._object_store.names(manifest.FOLDER):
            for suffix in (".json", heartbeat.SUFFIX):
                if listed.name.endswith(suffix):
                    home = listed.name.removeprefix(f"{manifest.FOLDER}/").removesuffix(suffix)
                    hints.setdefault(home, set()).add((suffix, listed.size, listed.modified))
        return dict(hints)

    def _pending(self, streams: list[SegmentChain]) -> Iterator[SegmentChain]:
        """Yield the streams with something to ingest, or with two objects of one number."""
        pending = {stream.id for stream in find_pending(self._lake, streams)}
        if self._options.again:
            mine = {stream.id for stream in streams if self._selection.has_device(stream.home)}
            pending |= self._selection.select_streams(self._lake, mine)
        for stream in streams:
            if stream.id in pending or any(len(objects) > 1 for objects in stream.segments.values()):
                yield stream

    def _derive_again(self) -> IngestReport:
        """Derive the rows of all streams in chains of devices anew."""
        report, prefix = IngestReport(), chain_app("")
        self._lake.table("sources", fresh=True)
        marks = dict(self._lake.versions("sources"))
        for home in sorted(app.removeprefix(prefix) for app in marks if app.startswith(prefix)):
            if not (self._has_device(home) and self._selection.has_device(home)):
                continue
            until, check = read_mark(marks, home), self._options.trust.device(home).check_known
            forget = lake_forget_filter(self._options.trust, self._object_store, [home])
            made = SpooledChain(self._object_store, self._lake.stream_id, home, until, forget, check=check)
            with closing(made) as spool:
                if spool.bad:
                    self._stuck[home] = (0, spool.bad)
                    continue
                for ids in spool.batches(self._options.batch_bytes):
                    batch = IngestBatch(spooled=(spool, self._selection.select_streams(self._lake, ids)))
                    report = report.merged(ingest_batch(self._lake, self._object_store, batch, self._options, []))
        return report

    def _has_shard(self, home: str) -> bool:
        return self._shard.has(home)

    def _has_device(self, home: str) -> bool:
        return self._has_shard(home) and lane_of_device(home) in self._options.lanes

    def _note_size(self, home: str, size: int) -> None:
        self._sizes[home] = self._sizes.get(home, 0) + size

    def _is_stuck(self, id: str, size: int) -> bool:
        return id in self._stuck and self._stuck[id][0] == size

    def _remember(self, streams: Sequence[SegmentChain], bad_in_batch: list[BadSegment]) -> None:
        by_name = {segment.name: segment for segment in bad_in_batch}
        for stream in streams:
            names = [listed.name for objects in stream.segments.values() for listed in objects]
            self._stuck.pop(stream.id, None)
            self._paused[stream.id] = time.monotonic() + min(stream.size // _BYTES_PER_SECOND, _LONGEST_PAUSE)
            if bad := [by_name[name] for name in names if name in by_name]:
                self._stuck[stream.id] = (stream.size, bad)

    def _remember_chains(
        self, batch: IngestBatch, chains: Mapping[str, Sequence[ListedObject]], bad_in_batch: list[BadSegment]
    ) -> None:
        by_name = {segment.name: segment for segment in bad_in_batch}
        for chain in batch.chains:
            self._stuck.pop(chain.home, None)
            # A bundle has about a third of what is derived from it.
            seconds = min(self._sizes.get(chain.home, 0) // (3 * _BYTES_PER_SECOND), _LONGEST_PAUSE)
            self._paused[chain.home] = time.monotonic() + seconds
            if bad := [by_name[listed.name] for listed in chain.segments if listed.name in by_name]:
                self._stuck[chain.home] = (_size(chains[chain.home]), bad)


def _batch_bytes(memory: int) -> int:
    """Return how many bytes of streams a batch may have in a process that may use so much memory.

    >>> _batch_bytes(512 << 20) >> 20
    14
    """
    return max((memory - _FIXED_BYTES) // _BYTES_PER_BYTE, 1 << 20)


def _limit_arenas() -> None:
    """Let the C library keep freed memory in two places, not in several for each thread of the libraries."""
    # Measured with 300 MB of sessions in batches of 14 MB: 420 MiB at most, and 555 without this. Only glibc has it.
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _size(listed: Sequence[ListedObject]) -> int:
    return sum(one.size for one in listed)


EVERY = 10.0
"""Seconds between rounds."""


def run_once(job: IngestJob, environment: Environment) -> IngestReport:
    """Ingest everything that is new, and return."""
    if job.workers == 1:
        return Ingester(job, environment).round()
    report = IngestReport()
    for part in _run_workers(job, follow=None):
        assert isinstance(part, IngestReport)
        report = report.merged(part)
    return report


def run_forever(
    job: IngestJob, environment: Environment, every: float = EVERY
) -> Iterator[IngestReport | ObjectStoreFailed]:
    """Ingest continuously; yield the report of each round that ingested anything, or the failure that it met."""
    if job.workers > 1:
        yield from _run_workers(job, follow=every)
        return
    ingester = Ingester(job, environment)
    while True:
        began = time.monotonic()
        yield from ingester.round_with_news()
        time.sleep(max(every - (time.monotonic() - began), 0.0))


def _run_workers(job: IngestJob, follow: float | None) -> Iterator[IngestReport | ObjectStoreFailed]:
    """Run workers in processes of their own and yield their reports."""
    hint = "committed work is complete; the next ingest continues from there"
    lost = Unreadable("a worker process was killed", hint=hint)
    # Not forked: the threads of the libraries do not survive that.
    with start_workers(job.workers, partial(_run_worker, job, follow), lost, forks=False) as running:
        ends = list(running)
        while ends:
            for end in wait_for(ends):
                try:
                    message = end.recv()
                except EOFError:  # it is done
                    ends.remove(end)
                    continue
                is_passing = isinstance(message, ObjectStoreFailed) and not message.is_final
                if isinstance(message, UnspoolError) and not (is_passing and follow is not None):
                    raise message
                yield message


def _run_worker(job: IngestJob, follow: float | None, end: Connection, number: int) -> None:
    """Run one worker; with `follow`, until the parent closes its end of the pipe."""
    try:
        ingester = Ingester(job, os.environ, number)
        while True:
            began = time.monotonic()
            if follow is None:
                end.send(ingester.round())
                return
            for report in ingester.round_with_news():
                end.send(report)
            # The parent never sends anything: readable means that its end is closed.
            if end.poll(max(follow - (time.monotonic() - began), 0.0)):
                return
    except UnspoolError as error:
        end.send(error)
