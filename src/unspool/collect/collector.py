"""Sends what is new in a config folder to an object store, once or continuously.

    store ─ selection ▶ candidates ─ source_bytes ▶ bytes ─ segment_maker ▶ outbox of parts ─ upload ▶ object store

Rules
  1. A killed collector loses nothing and sends nothing twice. `STEPS` names the points where the tests kill it.
  2. The outbox is bounded. When it is full no further part is made: newer lines stay in their file and the archive.
  3. Times are written into segments and not compared: a clock that was moved changes nothing, but for when the last
     line of a file that rests is sent without its end (`segment_maker.py`).
  4. What an administrator has removed (`lake forget`) is not sent again. The notice is read before anything is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from unspool.collect.heartbeat import DeviceHeartbeat, send_heartbeat
from unspool.collect.recovery import recover_state
from unspool.collect.segment_maker import CollectionPlan, CollectionReport, MadePart, SegmentMaker, stream_name
from unspool.collect.state import CollectorState
from unspool.collect.trust import publish_key, refuse_revoked
from unspool.collect.trust.notices import NoticeFilter
from unspool.collect.trust.tombstones import find_notice
from unspool.collect.upload import fit_segment, settle_packed, upload_next
from unspool.display import amount
from unspool.errors import ObjectStoreFailed
from unspool.store import transaction

STEPS = ("synced", "cut", "kept", "packed", "sending", "put", "acknowledged", "adopted", "published", "told")
"""The points where the tests kill a collector. `cut` to `acknowledged` repeat; `adopted` only if a second collector
sends for the same device."""

_BATCH_BYTES, _BATCH_PARTS = 16 * 1024 * 1024, 4096
"""Bytes and parts that are made before they are sent."""
_ROUNDS = 50
"""How often another collector of the same device may be faster before this one gives up for now."""


def collect_sessions(plan: CollectionPlan, report: CollectionReport) -> None:
    """Send everything that is new.

    After a failure of the object store no further request is made, but the outbox is still filled; then the failure is
    raised. What was sent before it is in the report.
    """
    uploader = _Uploader(plan, report)
    # The probe comes first: a store that ignores conditional puts would overwrite segments, and must get none.
    uploader.attempt(uploader.probe)
    uploader.attempt(uploader.read_notice)
    uploader.attempt(uploader.recover)
    # What an earlier run left in the outbox goes out before anything new is made.
    uploader.attempt(uploader.send)
    for _ in range(_ROUNDS):
        uploader.taken.clear()
        notice = uploader.notice
        maker = SegmentMaker(plan.state, plan.tools._replace(drops_line=notice.drops_line))
        candidates = notice.select(plan.refresh(), partial(stream_name, plan.tools.enrolment))
        plan.on_step("synced")
        parts = maker.make(candidates)
        while _fill_outbox(plan, parts, report):
            uploader.attempt(uploader.send)
            maker.changed.update(uploader.taken)
        report.failed = maker.failed
        # Where another collector was faster, sync once more before going on: it may have read further than our store.
        if not uploader.taken:
            break
    plan.state.release_pages()
    if uploader.failure:
        raise describe_pending(plan, uploader.failure, report)


class _Uploader:
    """Uploads until the object store fails once."""

    def __init__(self, plan: CollectionPlan, report: CollectionReport) -> None:
        self._plan, self._report = plan, report
        self.failure: ObjectStoreFailed | None = None
        self.taken: set[int] = set()
        """Streams of which another collector has sent parts."""
        self.notice = NoticeFilter()

    def attempt(self, request: Callable[[], None]) -> None:
        """Make a request unless an earlier one has failed."""
        if self.failure is None:
            try:
                request()
            except ObjectStoreFailed as failure:
                self.failure = failure

    def probe(self) -> None:
        """Check once in a process that the store refuses overwriting, and compare its clock with ours."""
        plan, report = self._plan, self._report
        if not report.is_probed:
            enrolment = plan.tools.enrolment
            name = f"{enrolment.org}/{enrolment.device}"
            for key in enrolment.device_keys[-1:]:
                refuse_revoked(plan.object_store, enrolment.org, enrolment.device)
                # Whoever made the key may have been killed before it was handed over.
                publish_key(plan.object_store, enrolment.org, enrolment.device, key)
            plan.object_store.probe(name, f"{plan.tools.clock()}\n".encode())
            report.ahead = plan.milliseconds() / 1000 - plan.object_store.clock(name).timestamp()
            report.is_probed = True

    def read_notice(self) -> None:
        """Read what must not be sent again; parts that wait may have been made without knowing it."""
        plan, enrolment = self._plan, self._plan.tools.enrolment
        notice = NoticeFilter(find_notice(plan.object_store, enrolment.org, enrolment.device, plan.trusted))
        if not notice.is_empty:
            notice.refuse_device()
            packed = plan.state.packed()
            if packed is not None and settle_packed(plan, packed):
                sent = plan.state.confirm_packed(packed, plan.milliseconds())
                self._report.add_confirmed(sent, len(packed.data))
            plan.state.remake_waiting()
            if notice.must_restart(plan.state.chain_end().sequence):
                plan.state.ask_again()
        self.notice = notice

    def recover(self) -> None:
        """Ask the store what this device has sent, unless that is known."""
        if recover_state(self._plan):
            self._plan.on_step("adopted")

    def send(self) -> None:
        """Send the whole outbox."""
        is_sent = self._plan.state.has_parts
        while is_sent:
            is_sent, taken = upload_next(self._plan, self._report)
            self.taken.update(taken)


def preview_segments(plan: CollectionPlan, report: CollectionReport) -> None:
    """Make all parts for the report of `--dry-run`; keep and send none."""
    candidates = plan.refresh()
    database = plan.state.database
    # The maker writes positions as it goes: the transaction is rolled back so that nothing counts as collected.
    database.execute("BEGIN IMMEDIATE")
    try:
        maker, lengths = SegmentMaker(plan.state, plan.tools, keep=False), list[int]()
        for part in maker.make(candidates):
            report.add_made(part)
            lengths.append(part.source_bytes)
            report.lines += part.lines
            report.bytes += part.size
            report.redactions += part.counts.total()
        report.failed = maker.failed
        while lengths:
            del lengths[: fit_segment(iter(lengths), plan.tools.size)]
            report.segments += 1
    finally:
        database.execute("ROLLBACK")


def add_progress(state: CollectorState, heartbeat: DeviceHeartbeat) -> DeviceHeartbeat:
    """Return a heartbeat with what this device has sent, and what waits."""
    waiting, sent, end = state.waiting(), state.sent().values(), state.chain_end()
    return msgspec.structs.replace(
        heartbeat,
        streams=len(sent),
        segments=end.sequence,
        lines=sum(stream.lines for stream in sent),
        digest=end.digest,
        pending=len(waiting),
        pending_bytes=sum(part.size for part in waiting),
    )


def publish_progress(plan: CollectionPlan, heartbeat: DeviceHeartbeat) -> None:
    """Write the heartbeat of this device."""
    enrolment = plan.tools.enrolment
    if enrolment.device_keys:
        refuse_revoked(plan.object_store, enrolment.org, enrolment.device)
    # After the segments, never before: it may be behind them, but one that is ahead would report a loss.
    told = add_progress(plan.state, heartbeat)
    send_heartbeat(plan.object_store, told, enrolment.key_for(told.segments + 1))
    plan.on_step("published")
    # Only now: a process killed before this line writes the same again.
    plan.state.mark_published()


def _fill_outbox(plan: CollectionPlan, parts: Iterator[MadePart], report: CollectionReport) -> bool:
    """Make one batch of parts; return whether there was any."""
    pending = sum(part.size for part in plan.state.waiting())
    report.is_full = pending >= plan.outbox
    if report.is_full:
        return False
    room, count = min(_BATCH_BYTES, plan.outbox - pending), 0
    # Parts and the positions they reach are one transaction: a process killed in here has made nothing.
    with transaction(plan.state.database):
        for part in parts:
            report.add_made(part)
            count += 1
            room -= part.size
            if room <= 0 or count >= _BATCH_PARTS:
                break
        if count:
            plan.on_step("cut")
    if count:
        plan.on_step("kept")
    return count > 0


def limit_rate(rate: int | None, sleep: Callable[[float], None] = time.sleep) -> Callable[[int], None]:
    """Return a function that sleeps before each upload, so that at most `rate` bytes are sent per second."""
    if not rate:
        return lambda _: None
    free_at = [time.monotonic()]

    def pace(size: int) -> None:
        start = max(free_at[0], time.monotonic())
        free_at[0] = start + size / rate
        sleep(max(start - time.monotonic(), 0))

    return pace


def describe_pending(plan: CollectionPlan, failure: ObjectStoreFailed, report: CollectionReport) -> ObjectStoreFailed:
    """Return the failure with the number and size of the parts that wait in the outbox."""
    waiting = plan.state.waiting()
    size = sum(part.size for part in waiting) / 1e6
    words = f"{failure.message}; waiting: {amount(len(waiting), 'part')} ({size:,.1f} MB)"
    if report.is_full:
        words += "; the outbox is full, newer lines wait in their files"
    return ObjectStoreFailed(words, hint=failure.hint, is_final=failure.is_final)
