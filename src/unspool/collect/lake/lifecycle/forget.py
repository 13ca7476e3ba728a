"""Removes sessions, projects, devices and users from an object store and a lake.

    plan ▶ list, signed ▶ notices to devices ▶ segments, each after its tombstone ▶ tables ▶ logs and old files

Rules
  1. The list comes first: from then on no ingest adds what it names. An ingest that has read the store before that is
     refused by the marks that are written with the rows (`ingest.py`), and starts again.
  2. A tombstone is put before its segment is overwritten. At every moment the chain can be read. A segment that the
     keys of its device refuse gets none, and stays: a tombstone would make it acceptable.
  3. The lines of a changed stream are replaced by those that its segments have now, in one commit. All other rows are
     derived anew, and what is billed is counted anew: a response that another session repeats now counts there.
     Segments that are ingested meanwhile must be signed as any ingest wants it.
  4. The list names the devices that are not finished. The same command again finishes them, wherever it was killed;
     every step can be repeated.
  5. Files that the tables no longer need are deleted at once, not after a week: a query that runs meanwhile may fail.
     Logs are replaced by a checkpoint, because they have the least and greatest values of columns.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import msgspec

from unspool.collect.heartbeat import heartbeat_name
from unspool.collect.lake.bundles import FOLDER as BUNDLES
from unspool.collect.lake.bundles import PARTS_FOLDER
from unspool.collect.lake.chains import (
    ChainMark,
    ReceivedSegment,
    SegmentCheck,
    SpooledChain,
    chain_app,
    chain_versions,
    read_mark,
    read_own_segments,
    read_parts,
)
from unspool.collect.lake.derive import RowBuffer, derive_stream
from unspool.collect.lake.ingest import (
    BATCH_BYTES,
    IngestBatch,
    IngestOptions,
    find_pending,
    ingest_batch,
    split_chains,
    split_into_batches,
)
from unspool.collect.lake.lake import CommitConflict, CommitOvertaken, Lake, any_of_predicate
from unspool.collect.lake.lifecycle.forget_filter import ForgetFilter, forget_app, pack_stream_segment
from unspool.collect.lake.lifecycle.plan import ForgetPlan, marks_of, read_objects
from unspool.collect.lake.lifecycle.table_cleanup import clean_tables
from unspool.collect.lake.streams import SegmentChain, StoredPart, list_pending, list_streams
from unspool.collect.lake.tables import LINES
from unspool.collect.lake.trust import LakeTrust, open_trust, remove_device_keys
from unspool.collect.lake.users import bind_users, read_users, with_bound_user
from unspool.collect.lake.verify import drop_verified
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import (
    decode_part_header,
    pack_device_segment,
    parse_device_segment_name,
    parse_segment_name,
    segment_digest,
    unpack_device_segment,
    unpack_segment,
    unpack_signed_segment,
)
from unspool.collect.trust import AdministratorKey
from unspool.collect.trust.tombstones import (
    LIST_KIND,
    NOTICE_KIND,
    REFUSE,
    TOMBSTONE_KIND,
    ForgetRules,
    ForgottenDevice,
    ForgottenList,
    SegmentTombstone,
    hash_session,
    list_name,
    notice_for,
    notice_name,
    open_list,
    read_list,
    read_tombstone,
    tombstone_name,
)
from unspool.errors import ObjectStoreFailed, Refused, Unreadable
from unspool.store.columns import sql_literal

STEPS = (
    "listed", "noticed", "signed", "rewritten", "unbound", "ingested", "replaced", "derived", "checkpointed", "cleaned",
    "done",
)  # fmt: skip
"""The points where the tests kill `lake forget`, in order; `signed` and `rewritten` come once for each segment,
`ingested` to `derived` once for each device, `checkpointed` and `cleaned` once for each table."""

_ATTEMPTS = 20
_BATCH = 500
"""Streams whose rows are replaced at once."""
_SPOOLED_BYTES = 64 * 1024 * 1024


class ForgetReport(NamedTuple):
    """What was removed, or would be."""

    devices: int = 0
    """Those of which segments change."""
    segments: int = 0
    parts: int = 0
    lines: int = 0
    files: int = 0
    """Files of tables that were deleted."""
    is_versioned: bool = False
    """Whether the store keeps old versions of objects, as far as it tells."""


class _Changed(NamedTuple):
    """A segment without what was forgotten."""

    data: bytes
    original: str
    parts: int
    lines: int


class Measured(NamedTuple):
    """A plan for only those devices that hold something, and what it removes from their segments."""

    plan: ForgetPlan
    report: ForgetReport


def measure_plan(
    lake: Lake, object_store: SegmentStore, plan: ForgetPlan, forget: ForgetFilter, trust: LakeTrust
) -> Measured:
    """Return what a plan would remove from the segments; nothing is written."""
    report, versioned, homes = ForgetReport(), False, []
    for home in plan.homes:
        check = _rewrite_check(lake, trust, home, forget)
        changed = [one for _, _, one in _changed_segments(object_store, home, forget, check)]
        if changed or home in plan.whole or home in plan.unfinished:
            homes.append(home)
        report = report._replace(
            devices=report.devices + bool(changed),
            segments=report.segments + len(changed),
            parts=report.parts + sum(one.parts for one in changed),
            lines=report.lines + sum(one.lines for one in changed),
        )
    for listed in object_store.names("segments"):
        stored = object_store.stored(listed.name)
        versioned = stored is not None and stored.version is not None
        break
    return Measured(plan._replace(homes=tuple(homes)), report._replace(is_versioned=versioned))


def preview_filter(
    object_store: SegmentStore, plan: ForgetPlan, then: str, trusted: Mapping[str, Collection[str]]
) -> ForgetFilter:
    """Return the filter that a plan would have; nothing is written."""
    lists = {}
    for org in plan.orgs:
        known = read_list(object_store.get, org, trusted.get(org, ()))
        lists[org] = _extend_list(known, org, plan, then)
    return ForgetFilter(ForgetRules(lists), object_store.get, trusted, plan.projects.drops_line)


def _extend_list(before: ForgottenList | None, org: str, plan: ForgetPlan, then: str) -> ForgottenList:
    known = before or ForgottenList(org=org, salt=secrets.token_hex(16))

    def mine(by_home: Mapping[str, object]) -> Iterator[str]:
        return (home for home in by_home if home.startswith(f"{org}/"))

    def extended(known_streams: Mapping[str, list[str]], found: Mapping[str, set[str]]) -> dict[str, list[str]]:
        devices = {home.partition("/")[2]: found[home] for home in mine(found)}
        return {
            device: sorted({*known_streams.get(device, ()), *devices.get(device, ())})
            for device in sorted({*known_streams, *devices})
        }

    homes = [home.partition("/")[2] for home in plan.homes if home.startswith(f"{org}/")]
    number = known.number + 1
    whole = {home.partition("/")[2]: ForgottenDevice(plan.whole[home], then) for home in mine(plan.whole)}
    return msgspec.structs.replace(
        known,
        number=number,
        sessions=sorted({*known.sessions, *(hash_session(known.salt, session) for session in plan.sessions)}),
        devices={**known.devices, **whole},
        streams=extended(known.streams, plan.streams),
        project_streams=extended(known.project_streams, plan.project_streams),
        kept_after={
            **known.kept_after,
            **{home.partition("/")[2]: plan.kept_after[home] for home in mine(plan.kept_after)},
        },
        noticed=sorted({*known.noticed, *(() if plan.kept_after else homes)}),
        touched={**known.touched, **dict.fromkeys(homes, number)},
        unfinished=sorted({*known.unfinished, *homes}),
    )


class Forgetting:
    """Carries out a plan."""

    def __init__(
        self,
        lake: Lake,
        object_store: SegmentStore,
        keys: Mapping[str, AdministratorKey],
        trust: LakeTrust,
        *,
        on_step: Callable[[str], None] = lambda _: None,
        name_user: Callable[[str], str] | None = None,
    ) -> None:
        self._name_user = name_user
        self._lake, self._object_store, self._keys, self._trust = lake, object_store, keys, trust
        self._trusted = trust.administrator_keys
        self._on_step = on_step

    def run(self, plan: ForgetPlan, then: str) -> ForgetReport:
        """Remove what a plan names."""
        # By the clock of the lake's own store: it is compared with the times of its files.
        began = self._lake.object_store.clock("forget")
        lists = self._write_lists(plan, then)
        forget = ForgetFilter(ForgetRules(lists), self._object_store.get, self._trusted, plan.projects.drops_line)
        self._write_notices(lists)
        report = ForgetReport()
        for home in plan.homes:
            report = self._rewrite(home, forget, report)
        self._remove_names(plan, forget)
        for home in plan.homes:
            self._update_tables(home, forget)
        # Another ingest may have written bundles while the segments were rewritten.
        self._remove_bundles(plan.homes)
        files = clean_tables(self._lake, set(plan.homes), began, self._on_step)
        # Their names are in it.
        drop_verified(self._lake.object_store, {home for home in plan.homes if forget.rules.device(home) is not None})
        self._finish_lists(plan)
        self._on_step("done")
        return report._replace(files=files)

    def _write_lists(self, plan: ForgetPlan, then: str) -> dict[str, ForgottenList]:
        lists = {org: self._change_list(org, partial(_extend_list, org=org, plan=plan, then=then)) for org in plan.orgs}
        self._on_step("listed")
        return lists

    def _change_list(self, org: str, change: Callable[[ForgottenList | None], ForgottenList]) -> ForgottenList:
        """Sign and write a changed list of an organisation; `Refused` if somebody else has changed it meanwhile."""
        name = list_name(org)
        before = self._object_store.stored(name)
        changed = change(open_list(before.data, org, self._trusted.get(org, ())) if before else None)
        if not self._object_store.replace(name, self._keys[org].sign(LIST_KIND, changed), before):
            raise Refused(f"another `lake forget` is running in `{org}`", hint="run this again after it")
        return changed

    def _write_notices(self, lists: Mapping[str, ForgottenList]) -> None:
        for org, forgotten in lists.items():
            for device in forgotten.noticed:
                notice = self._keys[org].sign(NOTICE_KIND, notice_for(forgotten, device))
                self._object_store.overwrite(notice_name(org, device), notice)
        self._on_step("noticed")

    def _rewrite(self, home: str, forget: ForgetFilter, report: ForgetReport) -> ForgetReport:
        """Rewrite the segments of a device."""
        count = 0
        check = _rewrite_check(self._lake, self._trust, home, forget)
        for name, before, changed in _changed_segments(self._object_store, home, forget, check):
            org = home.partition("/")[0]
            tombstone = SegmentTombstone(
                segment=name,
                original=changed.original,
                digest=segment_digest(changed.data),
                replaced=segment_digest(before),
            )
            self._object_store.overwrite(tombstone_name(name), self._keys[org].sign(TOMBSTONE_KIND, tombstone))
            self._on_step("signed")
            self._object_store.overwrite(name, changed.data)
            self._on_step("rewritten")
            count += 1
            report = report._replace(
                segments=report.segments + 1, parts=report.parts + changed.parts, lines=report.lines + changed.lines
            )
        self._empty_unreadable(home, forget)
        self._close_tombstones(home)
        return report._replace(devices=report.devices + bool(count))

    def _empty_unreadable(self, home: str, forget: ForgetFilter) -> None:
        """Take the bytes out of what cannot be read, and is in no table, of a device that is forgotten as a whole."""
        whole = forget.rules.device(home)
        if whole is None:
            return
        self._lake.table(LINES[0], fresh=True)
        known, taken = read_mark(self._lake.versions(LINES[0]), home).sequence, marks_of(self._lake)
        for name, data in read_objects(self._object_store, home):
            in_chain, own = parse_device_segment_name(name), parse_segment_name(name)
            # Later ones, of a device that starts anew, and those of which tables have rows, may still be restored.
            if in_chain is not None and (in_chain.sequence <= known or not _is_whole(whole, in_chain.sequence)):
                continue
            if own is not None and own.sequence <= taken.get(self._lake.stream_id(*own[:3]), 0):
                continue
            try:
                _change_own(home, data, forget) if in_chain is None else _change(home, in_chain.sequence, data, forget)
            except Unreadable:
                # Not deleted: an administrator may overwrite segments, and needs no right to delete them.
                if data:
                    self._object_store.overwrite(name, b"")

    def _close_tombstones(self, home: str) -> None:
        """Let no tombstone name the bytes that were replaced: put back by somebody, they would be accepted."""
        org = home.partition("/")[0]
        folder = tombstone_name(f"segments/{home}/").removesuffix(".json")
        for listed in list(self._object_store.names(folder.rstrip("/"))):
            segment = f"segments/{listed.name.removeprefix('tombstones/').removesuffix('.json')}.jsonl.zst"
            tombstone = read_tombstone(self._object_store.get, segment, self._trusted.get(org, ()))
            data = self._object_store.get(segment)
            if tombstone is None or data is None or tombstone.replaced == tombstone.digest:
                continue
            if segment_digest(data) == tombstone.digest:
                closed = msgspec.structs.replace(tombstone, replaced=tombstone.digest)
                self._object_store.overwrite(listed.name, self._keys[org].sign(TOMBSTONE_KIND, closed))

    def _remove_names(self, plan: ForgetPlan, forget: ForgetFilter) -> None:
        """Remove what else has the name of a user: heartbeats, manifests, bindings and keys; and all bundles."""
        homes = [home for home in plan.homes if forget.rules.device(home) is not None]
        for home in homes:
            org, _, device = home.partition("/")
            for name in (heartbeat_name(org, device), f"manifests/{home}.json"):
                self._object_store.delete(name)
        for home in homes:
            found = forget.rules.device(home)
            # A device that starts anew goes on signing, for the user that it was enrolled for.
            if found is not None and found.then == REFUSE:
                remove_device_keys(self._lake, self._object_store, *home.split("/"))
        # Without the users of the records: they must not come back into the tables.
        self._trust = open_trust(self._lake, self._object_store)
        bound = read_users(self._lake)
        if any(home in bound for home in homes):
            bind_users(self._lake, dict.fromkeys(homes), lambda org: self._keys[org])
        for home in homes:
            org, _, device = home.partition("/")
            self._lake.table("quarantine", fresh=True)
            where = f"org = {sql_literal(org)} AND device = {sql_literal(device)}"
            if self._lake.rows("quarantine", f"SELECT name FROM t WHERE {where}"):
                self._lake.delete("quarantine", where)
        self._remove_bundles(plan.homes)
        self._on_step("unbound")

    def _remove_bundles(self, homes: Iterable[str]) -> None:
        ids = {id for home in homes for id in self._stream_ids(home)}
        store = self._lake.object_store
        for folder in (BUNDLES, PARTS_FOLDER):
            for listed in list(store.names(folder)):
                if listed.name.rpartition("/")[2].partition("-")[0] in ids:
                    store.delete(listed.name)

    def _stream_ids(self, home: str) -> set[str]:
        org, _, device = home.partition("/")
        self._lake.table("sources", fresh=True)
        query = f"SELECT id FROM t WHERE org = {sql_literal(org)} AND device = {sql_literal(device)}"
        return {id for (id,) in self._lake.rows("sources", query)}

    def _update_tables(self, home: str, forget: ForgetFilter) -> None:
        """Replace the rows of a device by those that its segments have now."""
        for _ in range(_ATTEMPTS):
            try:
                self._finish_ingest(home)
                self._on_step("ingested")
                if self._replace_rows(home, forget):
                    return
            except CommitConflict:
                continue
        message = f"too many concurrent writers on the lake at `{self._lake.url}`"
        raise ObjectStoreFailed(message, hint="run the same command again, or stop the ingests while it runs")

    def _finish_ingest(self, home: str) -> None:
        """Ingest what a device has sent: its lines and its other rows must be equally far in the tables."""
        lake = self._lake
        lake.table("sources", fresh=True)
        start = read_mark(lake.versions("sources"), home).start(home)
        listing = list_pending(self._object_store, [home], lake.stream_id, lambda _: start)
        streams = find_pending(lake, list(listing.streams.values()))
        batches = (*split_into_batches(streams, BATCH_BYTES), *split_chains(listing.chains, BATCH_BYTES))
        for batch in batches:
            ingest_batch(lake, self._object_store, batch, self._options(), [])

    def _options(self, *, again: bool = False) -> IngestOptions:
        """Return how rows are derived: as an ingest of this lake does."""
        return IngestOptions(users=read_users(self._lake), trust=self._trust, name_user=self._name_user, again=again)

    def _replace_rows(self, home: str, forget: ForgetFilter) -> bool:
        """Replace the rows of the changed streams of a device; return False if an ingest was faster."""
        lake, store = self._lake, self._object_store
        for name in (*LINES, "sources"):
            lake.table(name, fresh=True)
        mark, derived = (read_mark(lake.versions(name), home) for name in (LINES[0], "sources"))
        if mark != derived:
            words = f"an ingest of the device `{home}` is not finished, and its segments cannot be read"
            raise Unreadable(words, hint="see `unspool lake verify`")
        numbers = marks_of(lake)
        check = self._trust.device(home).check_known
        with closing(SpooledChain(store, lake.stream_id, home, mark, forget, check=check)) as spool:
            if mark.sequence and spool.bad:
                hint = "restore it from the store's version history, and run the same command again"
                raise Unreadable(f"cannot read `{spool.bad[0].name}`: {spool.bad[0].reason}", hint=hint)
            for ids in _batches(spool, mark):
                changed = {id: parts for id in ids if _is_changed(parts := spool.parts(id))}
                self._replace_lines(home, mark, forget.rules.number(home), changed)
                self._on_step("replaced")
                if changed:
                    self._derive(IngestBatch(spooled=(spool, frozenset(changed))))
                self._on_step("derived")
            own = [chain for chain in self._own_chains(home) if chain.id not in _spooled_ids(spool, mark)]
        for some in (own[at : at + _BATCH] for at in range(0, len(own), _BATCH)):
            by_id = {
                chain.id: read_own_segments(store, home, chain.name, lake.stream_id, forget)[: numbers.get(chain.id, 0)]
                for chain in some
            }
            changed = {id: found for id, found in by_id.items() if found and _is_changed(found)}
            self._replace_lines(home, mark, forget.rules.number(home), changed)
            self._on_step("replaced")
            self._derive(IngestBatch(streams=[chain for chain in some if chain.id in changed]))
            self._on_step("derived")
        lake.table(LINES[0], fresh=True)
        return read_mark(lake.versions(LINES[0]), home) == mark

    def _own_chains(self, home: str) -> list[SegmentChain]:
        listing = list_streams(self._object_store, [home], self._lake.stream_id)
        return sorted(listing.streams.values(), key=lambda chain: chain.id)

    def _derive(self, batch: IngestBatch) -> None:
        if batch.streams or batch.spooled:
            ingest_batch(self._lake, self._object_store, batch, self._options(again=True), [])

    def _replace_lines(
        self, home: str, mark: ChainMark, number: int, changed: Mapping[str, Sequence[StoredPart]]
    ) -> None:
        """Replace the lines of changed streams by those that their parts have; mark the tables in any case."""
        lake, rows, user = self._lake, RowBuffer(), self._options().user_of(home)
        for id, parts in changed.items():
            derive_stream(with_bound_user(read_parts(parts), user, self._name_user), id, 0, rows)
        org, _, device = home.partition("/")
        where = f"org = {sql_literal(org)} AND device = {sql_literal(device)}"
        where += f" AND {any_of_predicate('stream', changed)}" if changed else ""
        for name in LINES:
            lake.table(name, fresh=True)
            versions = dict(lake.versions(name))
            in_table = read_mark(versions, home)
            if name == LINES[0] and in_table != mark:
                raise CommitOvertaken(name)
            # Recorded again, though they stay: of two commits with the same transaction, Delta refuses the later one.
            marks = chain_versions(home, in_table) if in_table.sequence else {}
            marks |= {id: versions[id] for id in changed if id in versions}
            before = {app: versions.get(app, 0) for app in (chain_app(home), forget_app(home), *changed)}
            marks[forget_app(home)] = number
            for _ in range(_ATTEMPTS):
                if lake.has_moved_on(name, before):
                    raise CommitOvertaken(name)
                try:
                    lake.write(name, rows.batches(name), marks, where if changed else None)
                except CommitConflict:
                    continue
                break
            else:
                raise CommitConflict(name)

    def _finish_lists(self, plan: ForgetPlan) -> None:
        """Record that nothing is left in the tables."""
        for org in plan.orgs:
            self._change_list(org, partial(_finish_list, org=org, plan=plan))


def _finish_list(known: ForgottenList | None, org: str, plan: ForgetPlan) -> ForgottenList:
    assert known is not None
    left = [device for device in known.unfinished if f"{org}/{device}" not in plan.homes]
    return msgspec.structs.replace(known, unfinished=left)


def _rewrite_check(lake: Lake, trust: LakeTrust, home: str, forget: ForgetFilter) -> SegmentCheck:
    """Return the check of segments before they are rewritten: a tombstone must not make a refused one acceptable."""
    device, whole = trust.device(home), forget.rules.device(home)
    lake.table(LINES[0], fresh=True)
    known = read_mark(lake.versions(LINES[0]), home).sequence

    def check(received: ReceivedSegment) -> str | None:
        number = received.header.sequence
        # All of such a segment goes, whoever made it.
        if whole is not None and _is_whole(whole, number):
            return None
        # A revocation counts for a rewritten one too.
        if device.refusal is None and device.refuse_from(number) is not None:
            return None
        return device.check_known(received) if number <= known else device.check_new(received)

    return check


def _is_whole(whole: ForgottenDevice, number: int) -> bool:
    return whole.then == REFUSE or number <= whole.sequence


def _changed_segments(
    object_store: SegmentStore, home: str, forget: ForgetFilter, check: SegmentCheck
) -> Iterator[tuple[str, bytes, _Changed]]:
    """Yield the segments of a device that hold something that is forgotten: name, bytes, and what they become."""
    for name, data in read_objects(object_store, home):
        parsed = parse_device_segment_name(name)
        try:
            changed = (
                _change_own(home, data, forget) if parsed is None else _change(home, parsed.sequence, data, forget)
            )
            # One that was rewritten by somebody else, or that is refused, must not get a tombstone.
            is_fine = changed is not None and _is_accepted(name, data, forget, check)
        except Unreadable:
            continue
        if changed is not None and is_fine:
            yield name, data, changed


def _is_accepted(name: str, data: bytes, forget: ForgetFilter, check: SegmentCheck) -> bool:
    """Return whether an ingest accepts a segment, as far as its bytes say; `Refused` if it was exchanged."""
    if parse_device_segment_name(name) is None:
        # Segments of streams with chains of their own are not signed: no tombstone makes them acceptable.
        forget.original_digest(name, data, unpack_segment(data).header.original)
        return True
    header, parts, line = unpack_signed_segment(data)
    forget.original_digest(name, data, header.original or "")
    return check(ReceivedSegment(name, header, line, parts, is_rewritten=bool(header.original))) is None


def _change_own(home: str, data: bytes, forget: ForgetFilter) -> _Changed | None:
    """Return a segment of a stream's own chain without what is forgotten."""
    segment = unpack_segment(data)
    changed = forget.change(home, 0, segment, segment_digest(data))
    if changed is None:
        return None
    return _Changed(pack_stream_segment(changed), changed.header.original, 1, len(segment.lines) - len(changed.lines))


def _change(home: str, position: int, data: bytes, forget: ForgetFilter) -> _Changed | None:
    """Return a segment of a device without what is forgotten."""
    header, parts = unpack_device_segment(data)
    entries, texts, count, lines = [], [], 0, 0
    for entry, text in parts:
        changed = forget.apply_text(home, position, text)
        if changed is not None:
            count += 1
            lines += decode_part_header(text).lines - decode_part_header(changed).lines
        kept = text if changed is None else changed
        entries.append(msgspec.structs.replace(entry, size=len(kept)))
        texts.append(kept)
    if not count:
        return None
    original = header.original or segment_digest(data)
    user = "" if forget.rules.device(home) is not None else header.user
    # A digest of what the device signed is one with which somebody could test a guess.
    changed_header = msgspec.structs.replace(
        header, parts=entries, original=original, user=user, parts_digest=msgspec.UNSET
    )
    return _Changed(pack_device_segment(changed_header, texts), original, count, lines)


def _is_changed(parts: Sequence[StoredPart]) -> bool:
    headers = (unpack_segment(part.data).header if part.is_segment else decode_part_header(part.data) for part in parts)
    return any(header.original for header in headers)


def _batches(spool: SpooledChain, mark: ChainMark) -> Iterator[list[str]]:
    """Yield the ids of the streams of a device in batches; one that is empty if it has none in its chain."""
    is_empty = True
    for ids in spool.batches(_SPOOLED_BYTES) if mark.sequence else ():
        every = sorted(ids)
        for at in range(0, len(every), _BATCH):
            is_empty = False
            yield every[at : at + _BATCH]
    if is_empty:
        yield []


def _spooled_ids(spool: SpooledChain, mark: ChainMark) -> set[str]:
    return {id for ids in _batches(spool, mark) for id in ids}
