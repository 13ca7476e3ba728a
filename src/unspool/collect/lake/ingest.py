"""Ingests a batch of devices and streams: adds their lines and derived rows to the tables, once.

Rules
  1. Lines come first: `side_files` if there are any for it, then `entries`. The commit that adds those of a device
     records a transaction (how far its chain is in the table; `chains.py`) on the very snapshot that was checked for
     it: of two ingests that add the same lines, Delta refuses one, which reads again. A stream with a chain of its own
     has a transaction of its own.
  2. All other rows of a stream are derived from all its segments and replace those that were there. That can be
     repeated at any time; `sources` is written last and says how far it was done, so the next ingest finishes what a
     killed one began. So a chain is read from where `sources` is.
  3. Derived tables are guarded by a lock for each quarter of a device: a transaction to which every commit gives the
     number of its ingest. The first table gives the number: of two ingests that take the same one there, Delta refuses
     one. An ingest that finds its number or a higher one in another table starts again, so older rows never replace
     newer ones.
  4. A lock whose number differs between the first and the last table was left by a killed ingest, or belongs to one
     that is running: then every stream may have rows already, and all tables are written. If it is the same, all
     ingests before have finished, or find a higher number in every table. So a table that has no row of the streams,
     and gets none, is left out: its lock protects nothing.
  5. A device waits behind a gap or a bad segment of its chain, a stream behind one of its own. Others do not.
  6. What the keys of its device refuse is a bad segment (`trust/segment_checks.py`).
  7. What could not be read is recorded in `quarantine` (`quarantine.py`).
  8. Old parts of a stream come from its bundle (`bundles.py`), not from the object store.
  9. What was forgotten (`lifecycle/forget_filter.py`) is not added. Its list is read after the marks of `lake forget`
     in the tables of lines: a commit is refused if such a mark has moved since.
  10. The bytes of all streams in a batch, old parts included, are bounded, and so is the memory of an ingest. They are
     known before anything is written: a batch that has more is halved. One segment is never divided.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from zlib import crc32

from unspool.collect.lake.billing import DeviceLock, update_billing
from unspool.collect.lake.bundles import read_bundles, write_bundles
from unspool.collect.lake.chains import (
    ChainMark,
    ChainReader,
    NewParts,
    SpooledChain,
    WholeStream,
    chain_app,
    chain_versions,
    read_mark,
    read_parts,
)
from unspool.collect.lake.derive import DerivedStream, RowBuffer, derive_stream
from unspool.collect.lake.lake import (
    CommitConflict,
    CommitOvertaken,
    Lake,
    devices_predicate,
    streams_predicate,
)
from unspool.collect.lake.lifecycle.forget_filter import (
    NO_FILTER,
    ForgetFilter,
    forget_app,
    read_forget_filter,
    refuse_older_list,
)
from unspool.collect.lake.streams import BadSegment, ReadSegment, SegmentChain, fetch_segments, follow_chain
from unspool.collect.lake.tables import DERIVED, LINES, lake_tables, tables_filled_by
from unspool.collect.lake.trust import NO_TRUST, LakeTrust
from unspool.collect.lake.users import with_bound_user
from unspool.collect.object_store import ListedObject, SegmentStore
from unspool.errors import ObjectStoreFailed
from unspool.store.columns import LINE_KINDS

STEPS = ("listed", "read", "lines", "begun", "derived", "answered", "counted", "finished", "quarantined", "done")
"""The points where the tests kill an ingest, in order; `read` to `finished` come once for each batch, `derived` once
for each table of it."""

LANES = 4
"""Devices, and the streams of a device that have own chains, are divided into so many parts, one for each worker."""

_FIRST_TABLE, _LAST_TABLE = DERIVED[0], "sources"
_ATTEMPTS = 40
_BATCH_STREAMS = 1000
_AT_ONCE = 16
"""Objects that are fetched in parallel."""
_COMPRESSION = 4
"""Bytes of lines for each byte of a segment, about: segments are chosen by their size in the listing."""
_HEADER_BYTES = 700
"""Of a part without its lines, which escapes make a quarter longer than they are in the file."""
_STREAMS_SHARE = 4
"""A part of a batch: streams of which all lines are decoded at once have so much of its bytes."""
_PARALLEL_TABLES = 2
"""Tables that are written in parallel."""


BATCH_BYTES = 128 * 1024 * 1024
"""Bytes of streams in a batch, unless it is told otherwise."""

NameUser = Callable[[str], str]


class ChainDerivation(Protocol):
    """Reads new segments of devices and derives their rows, for example in other processes."""

    def __call__(
        self,
        chains: Sequence[ChainSlice],
        progress: IngestProgress,
        users: Mapping[str, str],
        trust: LakeTrust,
        name_user: NameUser | None,
    ) -> Iterable[DerivedChains]:
        """Yield what they give; `users` are those that devices are bound to, `trust` says which must sign.

        `name_user` returns the pseudonym of a user, in a lake that has pseudonyms.
        """


class IngestOptions(NamedTuple):
    """The part of the streams that an ingest is for, and how it works."""

    on_step: Callable[[str], None] = lambda _: None
    """Called with the name of each of `STEPS` that is reached."""
    lanes: tuple[int, ...] = tuple(range(LANES))
    """The parts of each device that are ingested."""
    again: bool = False
    """Whether to derive rows anew even without new segments."""
    note_size: Callable[[str, int], None] = lambda _, __: None
    """Called with a device and the bytes of the parts of a stream that was derived."""
    users: Mapping[str, str] = {}
    """By device (`org/device`): the user that it is bound to."""
    trust: LakeTrust = NO_TRUST
    """Which devices must sign, with which keys, and which administrators may have rewritten segments."""
    batch_bytes: int = BATCH_BYTES
    """Bytes of streams, as they are in segments before compression, that a batch may have."""
    derive_chains: ChainDerivation | None = None
    """Reads and derives new segments of devices elsewhere; without it, it is done here."""
    name_user: NameUser | None = None
    """Returns the pseudonym of a user whose device is not bound."""

    def user_of(self, home: str) -> str | None:
        """Return the user that a device has in the tables; None if its segments say it."""
        # An enrolment with a token names a user; a binding that was set later counts more.
        if bound := self.users.get(home):
            return bound
        enrolled = self.trust.device(home).user or None
        # Bindings in a lake with pseudonyms are pseudonyms already. The name of an enrolment is none.
        return self.name_user(enrolled) if enrolled and self.name_user else enrolled


class LargeSegment(NamedTuple):
    """A segment whose streams have more bytes together than a batch may have."""

    name: str
    bytes: int


class IngestReport(NamedTuple):
    """The counts of a batch, or of one or more rounds."""

    streams: int = 0
    """Streams with new lines."""
    segments: int = 0
    lines: int = 0
    bytes: int = 0
    """Of the new lines in their sources."""
    conflicts: int = 0
    """How often another ingest was faster."""
    waiting: int = 0
    """Devices and streams that wait behind a gap."""
    bad: tuple[BadSegment, ...] = ()
    seconds: float = 0.0
    large: tuple[LargeSegment, ...] = ()
    """Segments that alone need more memory than was allowed."""

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
            large=tuple(sorted({*self.large, *other.large})),
        )


class ChainSlice(NamedTuple):
    """New segments of a device, of which nothing has been read."""

    home: str
    segments: list[ListedObject]


class IngestBatch(NamedTuple):
    """What is ingested together."""

    streams: Sequence[SegmentChain] = ()
    """Streams with chains of their own."""
    chains: Sequence[ChainSlice] = ()
    spooled: tuple[SpooledChain, frozenset[str]] | None = None
    """A device whose rows are derived anew, and those of its streams that are in this batch."""

    @property
    def homes(self) -> list[str]:
        """The devices."""
        spooled = [self.spooled[0].home] if self.spooled else []
        homes = {*spooled, *(stream.home for stream in self.streams), *(one.home for one in self.chains)}
        return sorted(homes)


class DerivedChains(NamedTuple):
    """What new segments of devices gave, to be committed."""

    derived: list[DerivedStream]
    rows: dict[str, Sequence[Any]]
    """By table: Arrow batches."""
    marks: dict[str, ChainMark]
    """By device: how far its chain was read."""
    own: dict[str, int]
    """By stream: how many segments its own chain has, if their lines come now."""
    segments: int
    sizes: list[tuple[str, int]]
    """For each stream: its device, and the bytes of its parts."""
    bad: list[BadSegment]
    broken: tuple[str, BadSegment] | None = None
    """A device of which nothing can be ingested, and why."""


class PendingStream(NamedTuple):
    """A stream whose rows are to be derived."""

    id: str
    home: str
    reads: list[ReadSegment]
    since: int
    """Its lines up to this segment or part are in the tables."""


class IngestProgress(NamedTuple):
    """How far the streams of a batch are in the tables before it begins."""

    lines: dict[str, int]
    """By stream: the last segment whose lines are in the tables."""
    derived: dict[str, int]
    """By stream: the last segment or part that is in all tables."""
    sizes: dict[str, int]
    """By stream: bytes of its file that were read."""
    chains: dict[str, ChainMark]
    """By device: how far its chain is in all tables."""
    chain_versions: dict[str, dict[str, int]]
    """By table and transaction: how far chains are in it."""
    first: dict[str, int]
    """By lock: its number in the first table."""
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


def lane_of_device(home: str) -> int:
    """Return the part of the devices that a device belongs to."""
    # Not its bucket, which decides the shard: then each shard would have one worker.
    return crc32(f"lane {home}".encode()) % LANES


def split_into_batches(streams: Sequence[SegmentChain], size: int) -> Iterator[IngestBatch]:
    """Yield streams in batches of about so many bytes of lines, in one at least a stream.

    Those of a device follow each other, so that few batches share a lock.
    """
    batch: list[SegmentChain] = []
    total = 0
    for stream in sorted(streams, key=lambda chain: (chain.org, chain.device, chain.id)):
        if batch and (total + stream.size * _COMPRESSION > size or len(batch) == _BATCH_STREAMS):
            yield IngestBatch(streams=batch)
            batch, total = [], 0
        batch.append(stream)
        total += stream.size * _COMPRESSION
    if batch:
        yield IngestBatch(streams=batch)


def split_chains(chains: Mapping[str, Sequence[ListedObject]], size: int) -> Iterator[IngestBatch]:
    """Yield the new segments of devices in batches of about so many bytes of lines, in one at least a segment.

    Those of a device are in order, in one batch or several.
    """
    batch, total = list[ChainSlice](), 0
    for home in sorted(chains):
        held: list[ListedObject] = []
        for listed in chains[home]:
            if total and total + listed.size * _COMPRESSION > size:
                yield IngestBatch(chains=[*batch, ChainSlice(home, held)] if held else batch)
                batch, held, total = [], [], 0
            held.append(listed)
            total += listed.size * _COMPRESSION
        batch.append(ChainSlice(home, held))
        if len(batch) == _BATCH_STREAMS:
            yield IngestBatch(chains=batch)
            batch, total = [], 0
    if batch:
        yield IngestBatch(chains=batch)


def halve_batch(batch: IngestBatch) -> tuple[IngestBatch, IngestBatch] | None:
    """Return the chains of a batch in two batches that must be ingested in this order; None if it is one segment."""
    chains = batch.chains
    middle = len(chains) // 2
    if middle:
        return batch._replace(chains=chains[:middle]), IngestBatch(chains=chains[middle:])
    if not chains or len(chains[0].segments) < 2:
        return None
    home, segments = chains[0]
    middle = len(segments) // 2
    first, second = ([ChainSlice(home, part)] for part in (segments[:middle], segments[middle:]))
    return batch._replace(chains=first), IngestBatch(chains=second)


def find_pending(lake: Lake, streams: Sequence[SegmentChain], *, again: bool = False) -> list[SegmentChain]:
    """Return the streams with new segments or unfinished rows, by names and numbers alone."""
    if not streams:
        return []
    added = read_progress(lake)
    rows = _derived_progress(lake, sorted({(stream.org, stream.device) for stream in streams}))
    derived = {id: sequence for id, (sequence, _) in rows.items()}
    return [
        stream
        for stream in streams
        if again or stream.last > added.get(stream.id, 0) or derived.get(stream.id, 0) < added.get(stream.id, 0)
    ]


def read_progress(lake: Lake, *, fresh: bool = True) -> dict[str, int]:
    """Return for each stream the last segment whose lines are in the tables."""
    progress: dict[str, int] = {}
    for name in LINES:
        lake.table(name, fresh=fresh)
        progress |= lake.versions(name)
    return progress


def ingest_batch(
    lake: Lake,
    object_store: SegmentStore,
    batch: IngestBatch,
    options: IngestOptions,
    bad: list[BadSegment],
) -> IngestReport:
    """Bring the tables up to date with a batch; each line is added once, however many ingests run."""
    conflicts, large, is_bounded = 0, tuple[LargeSegment, ...](), True
    while conflicts < _ATTEMPTS:
        bad_in_attempt: list[BadSegment] = []
        attempt = _Attempt(lake, object_store, options, is_first=conflicts == 0, is_bounded=is_bounded)
        try:
            ingested = attempt.run(batch, bad_in_attempt)
        except CommitConflict:
            _back_off(conflicts)
            conflicts += 1
            continue
        except _BrokenChain as broken:
            bad.append(broken.bad)
            batch = batch._replace(chains=[chain for chain in batch.chains if chain.home != broken.home])
            continue
        except _BatchTooLarge as error:
            halves = halve_batch(batch)
            if halves is None:
                # One segment is committed as a whole: with less memory it could never be ingested.
                is_bounded = False
                large = (LargeSegment(batch.chains[0].segments[0].name, error.size),)
                continue
            parts = [ingest_batch(lake, object_store, half, options, bad) for half in halves]
            return parts[0].merged(parts[1])
        bad += bad_in_attempt
        return ingested._replace(conflicts=conflicts, large=large)
    message = f"too many concurrent writers on the lake at `{lake.url}`"
    raise ObjectStoreFailed(message, hint="no data is lost; try again, or run fewer ingests at once")


def derive_chains(
    lake: Lake,
    object_store: SegmentStore,
    chains: Sequence[ChainSlice],
    progress: IngestProgress,
    options: IngestOptions,
) -> DerivedChains:
    """Read new segments of devices and derive their rows, for an ingest in another process that commits them."""
    attempt = _Attempt(lake, object_store, options, is_first=True, is_bounded=False)
    return attempt.derive_elsewhere(chains, progress)


class _BrokenChain(Exception):
    """A stream in the chain of a device lacks an earlier part: nothing of the device can be ingested."""

    def __init__(self, home: str, bad: BadSegment) -> None:
        super().__init__(home)
        self.home, self.bad = home, bad


class _BatchTooLarge(Exception):
    """The streams of a batch have more bytes than a batch may have. Nothing was written."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class _Attempt:
    """One attempt at a batch."""

    def __init__(
        self, lake: Lake, object_store: SegmentStore, options: IngestOptions, *, is_first: bool, is_bounded: bool
    ) -> None:
        self._lake, self._object_store, self._options, self._is_first = lake, object_store, options, is_first
        self._is_bounded = is_bounded
        self._rows = RowBuffer()
        self._marks: dict[str, ChainMark] = {}
        """By device: how far its chain was read."""
        self._is_spooled = False
        """Whether rows are derived anew, without new lines."""
        self._own: dict[str, int] = {}
        """By stream: how many segments its own chain has, if their lines come now."""
        self._forget: ForgetFilter = NO_FILTER
        self._segments = 0

    def run(self, batch: IngestBatch, bad: list[BadSegment]) -> IngestReport:
        """Add the lines of a batch and derive its other rows."""
        # Before any segment is read: an ingest that is slower than another must notice that it was overtaken.
        progress = self._read_progress(batch.homes)
        self._read_filter(batch.homes, progress)
        bundled = {} if self._options.again else read_bundles(self._lake.object_store, batch.streams)
        objects = fetch_segments(self._object_store, batch.streams, bundled)
        readable: list[tuple[SegmentChain, int]] = []
        derived: list[DerivedStream] = []
        for pending in (
            *self._own_chains(batch.streams, objects, progress, readable, bad),
            *self._spooled(batch),
        ):
            derived.append(self._derive(pending))
        derived += self._derive_chains(batch.chains, progress, bad)
        if not derived:
            return IngestReport()
        self._options.on_step("read")
        self._add_lines(derived, progress)
        self._options.on_step("lines")
        self._write_derived(derived, progress)
        write_bundles(self._lake.object_store, readable, objects, bundled)
        lines, length = sum(stream.lines for stream in derived), sum(stream.length for stream in derived)
        return IngestReport(len(derived), self._segments, lines, length)

    def derive_elsewhere(self, chains: Sequence[ChainSlice], progress: IngestProgress) -> DerivedChains:
        """Read and derive new segments of devices for an attempt in another process."""
        bad, sizes = list[BadSegment](), list[tuple[str, int]]()
        # After the marks in `progress`: what is forgotten in between makes the commit of the driver fail.
        self._read_filter([one.home for one in chains], progress)
        self._options = self._options._replace(note_size=lambda home, size: sizes.append((home, size)))
        try:
            derived = self._derive_chains(chains, progress, bad)
        except _BrokenChain as broken:
            return DerivedChains([], {}, {}, {}, 0, [], bad, (broken.home, broken.bad))
        rows = {name: self._rows.batches(name) for name in lake_tables()}
        return DerivedChains(derived, rows, self._marks, self._own, self._segments, sizes, bad)

    def _read_filter(self, homes: Sequence[str], progress: IngestProgress) -> None:
        self._forget = lake_forget_filter(self._options.trust, self._object_store, homes)
        refuse_older_list(self._forget.rules, progress.chain_versions.values(), homes)

    def _derive_chains(
        self, chains: Sequence[ChainSlice], progress: IngestProgress, bad: list[BadSegment]
    ) -> list[DerivedStream]:
        """Derive the streams of devices that have something new, here or elsewhere."""
        options = self._options
        if options.derive_chains is None:
            return [self._derive(pending) for pending in self._device_chains(chains, progress, bad)]
        derived = list[DerivedStream]()
        if not chains:
            return derived
        for found in options.derive_chains(chains, progress, options.users, options.trust, options.name_user):
            if found.broken is not None:
                raise _BrokenChain(*found.broken)
            derived += found.derived
            bad += found.bad
            self._segments += found.segments
            self._marks |= found.marks
            self._own |= found.own
            for name, batches in found.rows.items():
                self._rows.extend(name, batches)
            for home, size in found.sizes:
                self._options.note_size(home, size)
        return derived

    def _derive(self, pending: PendingStream) -> DerivedStream:
        reads = with_bound_user(pending.reads, self._options.user_of(pending.home), self._options.name_user)
        return derive_stream(reads, pending.id, pending.since, self._rows)

    def _own_chains(
        self,
        streams: Sequence[SegmentChain],
        objects: Mapping[str, bytes],
        progress: IngestProgress,
        readable: list[tuple[SegmentChain, int]],
        bad: list[BadSegment],
    ) -> Iterator[PendingStream]:
        """Yield the streams with chains of their own that have something new."""
        for stream in streams:
            chain = follow_chain(objects.get, stream, bad, self._forget.original_digest)
            reads = [self._forget.apply_read(stream.home, read) for read in chain]
            added = progress.lines.get(stream.id, 0)
            finished = progress.derived.get(stream.id, 0)
            # With fewer segments than the tables know, some have gone, or the stream goes on in the chain of its
            # device: nothing may be derived from the rest.
            if len(reads) < max(added, finished, 1) or (len(reads) == added == finished and not self._options.again):
                continue
            reason = self._options.trust.device(stream.home).refuse_unsigned() if len(reads) > added else None
            if reason is not None:
                bad += [BadSegment(one.name, one.size, reason) for one in stream.segments[added + 1]]
                continue
            # A bundle has whole objects: one that is about to be rewritten must not be kept there.
            if not self._forget.rules.concerns(stream.org, stream.home):
                readable.append((stream, len(reads)))
            self._segments += len(reads) - added
            yield PendingStream(stream.id, stream.home, reads, added)

    def _spooled(self, batch: IngestBatch) -> Iterator[PendingStream]:
        """Yield the streams whose rows are derived anew."""
        if batch.spooled is not None:
            self._is_spooled = True
            spool, ids = batch.spooled
            for id in sorted(ids):
                reads = read_parts(spool.parts(id))
                yield PendingStream(id, spool.home, reads, len(reads))

    def _device_chains(
        self, chains: Sequence[ChainSlice], progress: IngestProgress, bad: list[BadSegment]
    ) -> Iterator[PendingStream]:
        """Yield the streams of devices that have something new."""
        reader = ChainReader(
            self._object_store, self._lake.object_store, self._lake.stream_id, progress.derived, self._forget
        )
        names = [listed.name for chain in chains for listed in chain.segments]
        slices, total = list[tuple[ChainSlice, list[NewParts]]](), 0
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            objects = dict(zip(names, pool.map(self._object_store.get, names), strict=True))
            for chain in chains:
                start, check = progress.chains[chain.home], self._options.trust.device(chain.home).check_new
                streams, mark = reader.read_slice(chain.segments, objects.get, chain.home, start, bad, check=check)
                if mark == start:
                    continue
                self._marks[chain.home] = mark
                slices.append((chain, list(streams.values())))
                # Before anything of the streams is fetched, and anything is written.
                total += sum(_stream_size(new, progress) for new in streams.values())
                if self._is_bounded and total > self._options.batch_bytes:
                    raise _BatchTooLarge(total)
            objects.clear()
            for chain, found in slices:
                added = {name: read_mark(progress.chain_versions[name], chain.home).sequence for name in LINES}
                self._segments += max(self._marks[chain.home].sequence - added[LINES[0]], 0)
                for some in self._split_streams(found, progress):
                    for whole in pool.map(reader.complete, some):
                        if isinstance(whole, BadSegment):
                            raise _BrokenChain(chain.home, whole)
                        yield self._pending(whole, added, progress)

    def _split_streams(self, found: Sequence[NewParts], progress: IngestProgress) -> Iterator[list[NewParts]]:
        """Yield streams in groups that are completed at once: all lines of a group are decoded at the same time."""
        held, size, limit = list[NewParts](), 0, self._options.batch_bytes // _STREAMS_SHARE
        for new in found:
            more = _stream_size(new, progress)
            if held and (size + more > limit or len(held) == _AT_ONCE):
                yield held
                held, size = [], 0
            held.append(new)
            size += more
        if held:
            yield held

    def _pending(self, whole: WholeStream, added: Mapping[str, int], progress: IngestProgress) -> PendingStream:
        # `side_files` is committed before `entries`, and not always.
        table = LINES[0] if whole.reads[-1].segment.header.kind in LINE_KINDS else LINES[1]
        number = max(added[table], added[LINES[0]])
        new = [entry.sequence for entry, position in whole.new.entries if position > number]
        since = min(new) - 1 if new else len(whole.reads)
        in_tables = progress.lines.get(whole.new.id, 0)
        if in_tables < whole.own:
            self._own[whole.new.id], since = whole.own, in_tables
        self._options.note_size(whole.new.home, sum(read.size for read in whole.reads))
        return PendingStream(whole.new.id, whole.new.home, whole.reads, since)

    def _read_progress(self, homes: Sequence[str]) -> IngestProgress:
        locks = {f"{home}/{lane}" for home in homes for lane in range(LANES)}
        numbers: dict[str, dict[str, int]] = {}
        # The first table has the highest number of all. Only versions that wrote in another order may have left a
        # higher one elsewhere: an ingest that was refused looks everywhere.
        others = () if self._is_first else (*DERIVED[1:], "answers")
        # What is older than it seems shows when the first table is written: its lock is another by then.
        fresh = self._lake.is_near or not self._is_first
        for name in (_FIRST_TABLE, *others, _LAST_TABLE):
            self._lake.table(name, fresh=fresh)
            versions = self._lake.versions(name)
            numbers[name] = {lock: versions.get(lock, 0) for lock in locks}
        unfinished = frozenset(lock for lock in locks if numbers[_FIRST_TABLE][lock] != numbers[_LAST_TABLE][lock])
        chains = {home: read_mark(self._lake.versions(_LAST_TABLE), home) for home in homes}
        pairs = [home.partition("/")[::2] for home in homes]
        rows = _derived_progress(self._lake, pairs, fresh=False)
        derived, sizes = ({id: cells[at] for id, cells in rows.items()} for at in (0, 1))
        highest = {lock: max(by_lock[lock] for by_lock in numbers.values()) for lock in locks}
        lines = read_progress(self._lake, fresh=fresh)
        # A copy: what the tables give goes on with every commit.
        apps = {app(home) for home in homes for app in (chain_app, forget_app)}
        in_table: dict[str, dict[str, int]] = {}
        for name in (*LINES, _LAST_TABLE):
            in_table[name] = {app: number for app, number in self._lake.versions(name).items() if app in apps}
        return IngestProgress(lines, derived, sizes, chains, in_table, numbers[_FIRST_TABLE], highest, unfinished)

    def _add_lines(self, derived: list[DerivedStream], progress: IngestProgress) -> None:
        # `entries` comes last, and has the mark of every device: it says where reading goes on.
        for name in reversed(LINES):
            is_entries, versions = name == LINES[0], progress.chain_versions[name]
            of_table = [stream for stream in derived if (stream.kind in LINE_KINDS) == is_entries]
            before = {stream.owner.stream: progress.lines.get(stream.owner.stream, 0) for stream in of_table}
            marks = self._stream_marks(of_table, before)
            before = {stream: before[stream] for stream in marks}
            with_lines = {stream.owner.home for stream in of_table}
            for home, mark in self._marks.items():
                has_news = mark.sequence > read_mark(versions, home).sequence
                if has_news and (is_entries or home in with_lines):
                    marks |= chain_versions(home, mark)
                    before[chain_app(home)] = versions.get(chain_app(home), 0)
            if marks:
                homes = {stream.owner.home for stream in derived} | self._marks.keys()
                before |= {app: versions.get(app, 0) for app in map(forget_app, homes)}
                self._commit(name, marks, None, before=before)

    def _stream_marks(self, derived: Sequence[DerivedStream], before: Mapping[str, int]) -> dict[str, int]:
        """Return the transactions of the streams with chains of their own."""
        marks = {}
        for stream in derived:
            id = stream.owner.stream
            number = self._own.get(id, 0) if stream.owner.home in self._marks else stream.sequence
            if number > before[id] and not self._is_spooled:
                marks[id] = number
        return marks

    def _write_derived(self, derived: list[DerivedStream], progress: IngestProgress) -> None:
        locks = {
            owner.stream: _lock(owner.org, owner.device, owner.stream) for owner in (stream.owner for stream in derived)
        }
        marks = {lock: progress.locks[lock] + 1 for lock in locks.values()}
        known = {
            stream for stream, lock in locks.items() if stream in progress.known_streams or lock in progress.unfinished
        }
        is_unfinished = bool(progress.unfinished & marks.keys())
        predicates, checked = self._derived_tables(derived, known, is_all=is_unfinished)
        # The first table is written alone, before the others: its lock shows that this batch has begun.
        before = {lock: progress.first[lock] for lock in marks}
        self._commit(_FIRST_TABLE, marks, predicates.pop(_FIRST_TABLE), before=before)
        self._options.on_step("begun")
        with ThreadPoolExecutor(_PARALLEL_TABLES) as pool:
            # Only now: what an ingest before this one has written is there to be seen (rule 4).
            empty = pool.map(lambda name: self._is_without(name, predicates[name]), checked)
            for name in [name for name, is_empty in zip(checked, list(empty), strict=True) if is_empty]:
                del predicates[name]
            # Their order does not matter, and the library does the work, not Python.
            commits = [
                pool.submit(self._commit, name, marks, predicate, numbers=marks)
                for name, predicate in predicates.items()
            ]
            for commit in as_completed(commits):
                commit.result()
                self._options.on_step("derived")
        guard = DeviceLock(marks, self._options.again or not self._is_first)
        update_billing(self._lake, derived, known, guard, self._options.on_step)
        self._check_lock(marks)
        # `sources` comes last: it says that the rows of all other tables are there.
        predicate = streams_predicate(_LAST_TABLE, derived) if known else None
        all_marks, before = dict(marks), dict[str, int]()
        for home, mark in self._marks.items():
            all_marks |= chain_versions(home, mark)
            before[chain_app(home)] = progress.chain_versions[_LAST_TABLE].get(chain_app(home), 0)
        self._commit(_LAST_TABLE, all_marks, predicate, before=before, numbers=marks)
        self._options.on_step("finished")

    def _derived_tables(
        self, derived: list[DerivedStream], known: Collection[str], *, is_all: bool
    ) -> tuple[dict[str, str | None], list[str]]:
        """Return the derived tables to write, each with the predicate of the rows to replace.

        And those that need not be written if they have none of these rows.
        """
        predicates, checked = dict[str, str | None](), list[str]()
        for name in DERIVED:
            of_table = [stream for stream in derived if name in tables_filled_by(stream.kind)]
            # New streams are only appended: replacing makes the library read the files that may hold old rows.
            has_rows = any(stream.owner.stream in known for stream in of_table)
            has_new = bool(self._rows.batches(name))
            if name == _FIRST_TABLE or has_rows or has_new or is_all:
                predicates[name] = streams_predicate(name, of_table) if has_rows else None
            if name != _FIRST_TABLE and has_rows and not has_new and not is_all:
                checked.append(name)
        return predicates, checked

    def _check_lock(self, marks: Mapping[str, int]) -> None:
        """Raise `CommitOvertaken` if another ingest has taken a lock of this one."""
        # It may have begun with fewer segments, and its rows are older: then both start again.
        self._lake.table(_FIRST_TABLE, fresh=True)
        now = self._lake.versions(_FIRST_TABLE)
        if any(now.get(lock, 0) != number for lock, number in marks.items()):
            raise CommitOvertaken(_FIRST_TABLE)

    def _is_without(self, name: str, where: str | None) -> bool:
        """Return whether a table has no rows that a predicate selects, as far as its log tells."""
        self._lake.table(name, fresh=True)
        return where is not None and not self._lake.may_have_rows(name, where)

    def _commit(
        self,
        name: str,
        marks: dict[str, int],
        where: str | None,
        *,
        before: Mapping[str, int] = MappingProxyType({}),
        numbers: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Write the rows of a table.

        `CommitOvertaken` if one of the transactions in `before` has another version by now, or one in `numbers` this
        one or a higher one.
        """
        for attempt in range(_ATTEMPTS):
            # In an object store on the snapshot that was read before: if it is old, the commit is refused, because
            # whoever was faster has recorded one of the same transactions. In a folder a look costs no request, and
            # `lake forget` may have deleted files that an old snapshot names.
            self._lake.table(name, fresh=attempt > 0 or self._lake.is_near)
            now = self._lake.versions(name)
            is_changed = any(now.get(app, 0) != version for app, version in before.items())
            if is_changed or any(now.get(app, 0) >= version for app, version in numbers.items()):
                raise CommitOvertaken(name)
            try:
                self._lake.write(name, self._rows.batches(name), marks, where)
            except CommitConflict:
                _back_off(attempt)
                continue
            # Nothing asks for them again, and the other tables need memory.
            self._rows.discard(name)
            return
        raise CommitConflict(name)


def lake_forget_filter(trust: LakeTrust, object_store: SegmentStore, homes: Sequence[str]) -> ForgetFilter:
    """Return the filter for the segments of some devices (`org/device`)."""
    return read_forget_filter(object_store.get, trust.administrator_keys, {home.partition("/")[0] for home in homes})


def _lock(org: str, device: str, stream: str) -> str:
    return f"{org}/{device}/{lane_of_stream(stream)}"


def _derived_progress(
    lake: Lake, homes: Sequence[tuple[str, str]], *, fresh: bool = True
) -> dict[str, tuple[int, int]]:
    """Return for each stream of some devices the last segment that is in all tables, and how long its file was."""
    lake.table(_LAST_TABLE, fresh=fresh)
    if not homes:
        return {}
    where = devices_predicate(homes)
    found = lake.rows(_LAST_TABLE, f"SELECT id, sequence, read_bytes FROM t WHERE {where}", where)
    return {id: (sequence, size or 0) for id, sequence, size in found}


def _stream_size(new: NewParts, progress: IngestProgress) -> int:
    """Return about how many bytes a stream with new parts has: the new ones, and those of its file before them."""
    before = progress.sizes.get(new.id, 0) * 5 // 4 + progress.derived.get(new.id, 0) * _HEADER_BYTES
    return before + sum(len(part.data) for part in new.parts)


def _back_off(attempt: int) -> None:
    # Random, so that ingests which collided do not collide again.
    time.sleep(random.random() * min(0.02 * 2**attempt, 2.0))
