"""Verifies a lake: every line that was sent is in the tables once, and what is derived from it.

Rules
  1. Devices, partitions and files that are as they were when they were last verified are not read again (`state.py`).
     Everything is listed each time, so what is removed is noticed, and what is exchanged too: an object store gives it
     another time.
  2. The lines in the segments of all devices in a bucket, and the rows in all partitions, are compared by number and
     sum. If they differ, the devices of the bucket are looked at one by one, and of those that differ every part.
  3. `responses` must have every response of `answers` once.
  4. A row of a derived table belongs to a stream that was ingested.
  5. Segments that are read, and heartbeats, must be signed as an ingest wants it.
  6. With `is_full` nothing is taken from an earlier run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from unspool.collect.heartbeat import DeviceHeartbeat, read_signed_heartbeats
from unspool.collect.lake.lake import Lake
from unspool.collect.lake.lifecycle.forget_filter import (
    ForgetFilter,
    read_forget_filter,
    refuse_older_list,
)
from unspool.collect.lake.lifecycle.pseudonyms import has_pseudonyms
from unspool.collect.lake.streams import find_homes
from unspool.collect.lake.tables import BUCKETS, DERIVED, LINES
from unspool.collect.lake.trust import LakeTrust, open_trust
from unspool.collect.lake.users import read_users
from unspool.collect.lake.verify.devices import DeviceReader, LakeProblem, SourceRow, bucket_of
from unspool.collect.lake.verify.row_sums import RowCounter
from unspool.collect.lake.verify.state import (
    PartitionRows,
    RowSum,
    VerifiedDevice,
    VerifiedLake,
    read_verified,
    write_verified,
)
from unspool.collect.manifest import FOLDER, DeviceManifest, decode_manifest
from unspool.collect.object_store import SegmentStore
from unspool.errors import Unreadable

_BILLING = ("answers", "responses")
_TABLES = (*LINES, *DERIVED, *_BILLING, "sources")


class LakeVerification(NamedTuple):
    """The numbers of compared things, and the problems."""

    devices: int
    streams: int
    segments: int
    lines: int
    responses: int
    problems: tuple[LakeProblem, ...]
    read_segments: int = 0
    """Objects that were read."""
    counted_partitions: int = 0
    """Partitions of tables whose rows were counted."""
    is_recorded: bool = False
    """Whether the next run need not read this again."""


def verify_lake(lake: Lake, object_store: SegmentStore, *, is_full: bool = False) -> LakeVerification:
    """Compare the manifests, the segments and the tables of a lake; with `is_full` everything, else what is new."""
    for name in _TABLES:
        # The tables before the listing: then every row must have its segment there, whatever arrives meanwhile.
        lake.table(name, fresh=True)
    with RowCounter(lake) as counter:
        missing = [path for name in _TABLES for path in counter.missing_files(name)]
        if missing:
            # Rows that cannot be read cannot be compared.
            problems = (LakeProblem("missing file", path, "the log of its table names it") for path in missing)
            return LakeVerification(0, 0, 0, 0, 0, tuple(problems))
        before = VerifiedLake() if is_full else read_verified(lake.object_store)
        trust = open_trust(lake, object_store)
        forget = read_forget_filter(object_store.get, trust.administrator_keys, trust.administrators)
        # The list may be newer than the tables, which were loaded before it was read, and not older.
        refuse_older_list(forget.rules, (lake.versions(name) for name in LINES))
        return _Verification(lake, object_store, counter, before, trust=trust, forget=forget, is_full=is_full).run()


class _Verification:
    """One run."""

    def __init__(
        self,
        lake: Lake,
        object_store: SegmentStore,
        counter: RowCounter,
        before: VerifiedLake,
        *,
        trust: LakeTrust,
        forget: ForgetFilter,
        is_full: bool,
    ) -> None:
        self._lake, self._object_store, self._counter, self._before = lake, object_store, counter, before
        self._trust, self._forget = trust, forget
        self._reader = DeviceReader(lake, object_store, trust, forget, is_full=is_full)
        enrolled = {home: record.user for home, record in trust.read_all().items() if record.user}
        # A binding that was set later counts more than the user of the enrolment.
        users = enrolled | read_users(lake, trust.administrators)
        # Bindings to pseudonyms cannot be compared with the names that devices say.
        self._users = {} if has_pseudonyms(lake) else users
        names = (one.name.removeprefix(f"{FOLDER}/") for one in object_store.names(FOLDER))
        self._manifests = {name.removesuffix(".json") for name in names if name.endswith(".json")}
        self._problems: list[LakeProblem] = []
        self._unsigned: set[str] = set()
        """Devices whose heartbeat is not signed, though they have a key."""
        self._heartbeats = self._read_heartbeats()
        self._lines: dict[str, dict[str, RowSum] | None] = {}
        """By device and table: the rows that it must have; None if that is not known."""
        self._verified: dict[str, VerifiedDevice] = {}
        self._new_streams: set[str] = set()
        self._numbers = [0, 0, 0]
        """Devices, streams and segments."""

    def run(self) -> LakeVerification:
        """Compare everything, and record what was read."""
        homes, sources = self._list_homes(), self._counter.list_partitions("sources")
        for bucket in range(BUCKETS):
            rows = self._reader.read_sources(bucket) if str(bucket) in sources else {}
            here = {home for home in homes if bucket_of(home) == bucket}
            for home in sorted(here | rows.keys()):
                self._compare_device(home, rows.get(home, {}))
        counted = {name: self._counter.count_rows(name, self._earlier(name)) for name in (*LINES, *_BILLING)}
        for name in LINES:
            self._problems += self._compare_lines(name, counted[name])
        self._problems += self._compare_billing(counted)
        tables = {self._key(name): rows for name, rows in counted.items()}
        self._counter.note_known({*self._new_streams, *self._reader.taken})
        for name in (*DERIVED, *_BILLING):
            fine = self._compare_streams(name)
            # Those of billing are compared by their rows too, each time.
            tables[self._key(name)] = (
                fine if name in DERIVED else {value: rows for value, rows in counted[name].items() if value in fine}
            )
        is_recorded = write_verified(self._lake.object_store, VerifiedLake(devices=self._verified, tables=tables))
        devices, streams, segments = self._numbers
        return LakeVerification(
            devices,
            streams,
            segments,
            lines=sum(_total(counted[name]).rows for name in LINES),
            responses=_total(counted["responses"]).rows,
            problems=tuple(self._problems),
            read_segments=self._reader.reads,
            counted_partitions=self._counter.counted_partitions,
            is_recorded=is_recorded,
        )

    def _read_heartbeats(self) -> dict[str, DeviceHeartbeat]:
        """Return the heartbeats by device; one that a device with a key has not signed is a problem."""
        found = {}
        for heartbeat, data in read_signed_heartbeats(self._object_store):
            home = f"{heartbeat.org}/{heartbeat.device}"
            if self._trust.device(home).is_heartbeat_signed(heartbeat, data):
                found[home] = heartbeat
            else:
                self._unsigned.add(home)
                self._problems.append(LakeProblem("heartbeat", home, "it is not signed with a key of its device"))
        return found

    def _list_homes(self) -> set[str]:
        """Return all devices that there are, or were when the lake was last verified."""
        found, strays = find_homes(self._object_store)
        for one in strays:
            self._problems.append(LakeProblem("not a segment", one.name, "its name is not a segment name"))
        return {
            *found, *self._heartbeats, *self._manifests, *self._reader.chain_homes(), *self._before.devices
        }  # fmt: skip

    def _compare_device(self, home: str, sources: Mapping[str, SourceRow]) -> None:
        heartbeat, earlier = self._heartbeats.get(home), self._before.devices.get(home)
        manifest = self._read_manifest(home) if home in self._manifests else None
        had_heartbeat = earlier is not None and earlier.has_heartbeat
        # One that is not signed is named as that, and is not missing too.
        known = replace(earlier, has_heartbeat=False) if earlier and home in self._unsigned else earlier
        compared = self._reader.compare(home, known, sources, heartbeat, manifest)
        self._problems += compared.problems
        for said in {words.user for words in (heartbeat, manifest) if words is not None}:
            bound = self._users.get(home, said)
            if bound != said:
                self._problems.append(LakeProblem("user", home, f"it says `{said}` and is bound to `{bound}`"))
        for at, number in enumerate((bool(compared.segments), compared.streams, compared.segments)):
            self._numbers[at] += number
        self._new_streams |= compared.new_streams
        self._lines[home] = compared.lines
        # What is wrong stays as it was recorded, so that it is found again.
        if (verified := compared.verified or earlier) is not None and self._forget.rules.device(home) is None:
            self._verified[home] = replace(verified, has_heartbeat=verified.has_heartbeat or had_heartbeat)

    def _read_manifest(self, home: str) -> DeviceManifest | None:
        name = f"{FOLDER}/{home}.json"
        data = self._object_store.get(name)
        try:
            return decode_manifest(data, name) if data is not None else None
        except Unreadable as error:
            self._problems.append(LakeProblem("manifest", name, error.message))
            return None

    def _compare_lines(self, name: str, partitions: Mapping[str, PartitionRows]) -> Iterator[LakeProblem]:
        """Yield the differences between the lines in segments and the rows of a table."""
        told, unknown = dict[int, RowSum](), set[int]()
        for home, lines in self._lines.items():
            bucket = bucket_of(home)
            if lines is None:
                unknown.add(bucket)
            else:
                told[bucket] = told.get(bucket, RowSum()).plus(*lines[name])
        doubtful = unknown | _differing(told, _by_bucket(partitions))
        homes = [home for home in self._lines if bucket_of(home) in doubtful]
        if not doubtful:
            return
        found = self._counter.count_by_device(name, homes)
        # Rows may also be of a device that nobody knows.
        for home in sorted({*homes, *(home for home in found if bucket_of(home) in doubtful)}):
            known = self._lines.get(home, {})
            if known is None or known.get(name, RowSum()) != found.get(home, RowSum()):
                yield from self._compare_parts(name, home, is_known=known is not None)

    def _compare_parts(self, name: str, home: str, *, is_known: bool) -> Iterator[LakeProblem]:
        """Yield what is wrong with the rows of a device in a table of lines, part by part."""
        rows = self._counter.count_parts(name, home)
        parts, is_complete = self._reader.read_parts(home)
        told = {(id, sequence): count for (table, id, sequence), count in parts.items() if table == name}
        is_named = False
        for part in sorted(rows.keys() | told.keys()):
            count, different = rows.get(part, (0, 0))
            where = f"{part[0]}/{part[1]}"
            if count != different:
                yield LakeProblem("double rows", where, f"{count - different:,}")
            if part in told and told[part] != count:
                yield LakeProblem("lines", where, f"its segment has {told[part]:,}, `{name}` has {count:,}")
            elif part not in told and is_complete:
                yield LakeProblem("rows without a segment", where, f"{count:,}")
            is_named = is_named or count != different or told.get(part) != count
        if is_known and not is_named:
            yield LakeProblem("lines", home, f"the rows of `{name}` are not the lines of its segments")

    def _compare_billing(self, counted: Mapping[str, Mapping[str, PartitionRows]]) -> Iterator[LakeProblem]:
        """Yield the devices of which a response is missing or counted twice."""
        buckets = {name: _by_bucket(counted[name]) for name in _BILLING}
        doubtful = _differing(*buckets.values())
        homes = [home for home in self._lines if bucket_of(home) in doubtful]
        if not doubtful:
            return
        answers, responses = (self._counter.count_by_device(name, homes) for name in _BILLING)
        locks = [self._lake.versions(name) for name in _BILLING]
        for home in sorted(answers.keys() | responses.keys()):
            billed, found = answers.get(home, RowSum()), responses.get(home, RowSum())
            # An ingest is between the two tables, or was killed there: then the device is named as not derived.
            if billed == found or locks[0].get(home, 0) != locks[1].get(home, 0):
                continue
            different = self._counter.count_responses(home)
            if different != found.rows:
                yield LakeProblem("double responses", home, f"{found.rows - different:,}")
            if different != billed.rows or found.rows == billed.rows:
                yield LakeProblem("responses", home, f"{billed.rows:,} billed, {different:,} counted")

    def _compare_streams(self, name: str) -> dict[str, PartitionRows]:
        """Look for rows of unknown streams in the partitions of a table that have changed; return all that are fine."""
        before, now = self._earlier(name), self._counter.list_partitions(name)
        changed = [value for value, files in sorted(now.items()) if value not in before or before[value].files != files]
        for value, id in self._counter.unknown_streams(name, changed):
            self._problems.append(
                LakeProblem("rows without a stream", f"{name}/{id}", "none of its segments was ingested")
            )
            now.pop(value, None)
        return {value: PartitionRows(files) for value, files in now.items()}

    def _earlier(self, name: str) -> Mapping[str, PartitionRows]:
        return self._before.tables.get(self._key(name), {})

    def _key(self, name: str) -> str:
        # A table that was created anew has another id.
        return f"{name} {self._lake.table(name).metadata().id}"


def _by_bucket(partitions: Mapping[str, PartitionRows]) -> dict[int, RowSum]:
    found: dict[int, RowSum] = {}
    for one in partitions.values():
        for bucket, rows in one.buckets.items():
            found[bucket] = found.get(bucket, RowSum()).plus(*rows)
    return found


def _total(partitions: Mapping[str, PartitionRows]) -> RowSum:
    total = RowSum()
    for rows in _by_bucket(partitions).values():
        total = total.plus(*rows)
    return total


def _differing(first: Mapping[int, RowSum], second: Mapping[int, RowSum]) -> set[int]:
    return {
        bucket for bucket in first.keys() | second.keys() if first.get(bucket, RowSum()) != second.get(bucket, RowSum())
    }
