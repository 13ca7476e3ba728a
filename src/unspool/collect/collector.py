"""Sends what is new in a config folder to an object store, once or continuously.

    store ─ selection ▶ candidates ─ source_bytes ▶ bytes ─ segment_maker ▶ outbox ─ upload ▶ object store

Rules
  1. A killed collector loses nothing and sends nothing twice. `STEPS` names the points where the tests kill it.
  2. The outbox is bounded. When it is full no further segment is made: newer lines stay in their file and the archive.
  3. Times are written into segments and not compared: a clock that was moved changes nothing, but for when the last
     line of a file that rests is sent without its end (`segment_maker.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from unspool.collect.manifest import DeviceManifest, publish_manifest
from unspool.collect.segment_maker import CollectionPlan, CollectionReport, MadeSegments, SegmentMaker
from unspool.collect.upload import upload_outbox
from unspool.errors import ObjectStoreFailed
from unspool.store import transaction

STEPS = ("synced", "cut", "kept", "sending", "put", "acknowledged", "adopted", "published", "told")
"""The points where the tests kill a collector. `cut` to `acknowledged` repeat; `adopted` only if a second collector
sends for the same device."""

_BATCH_BYTES, _BATCH_SEGMENTS = 16 * 1024 * 1024, 256
"""Bytes and segments that are made before they are sent."""
_ROUNDS = 50
"""How often another collector of the same device may be faster before this one gives up for now."""


def collect_sessions(plan: CollectionPlan, report: CollectionReport, *, publishes: bool = True) -> None:
    """Send everything that is new.

    After a failure of the object store no further request is made, but the outbox is still filled; then the failure is
    raised. What was sent before it is in the report.
    """
    uploader = _Uploader(plan, report)
    # The probe comes first: a store that ignores conditional puts would overwrite segments, and must get none.
    uploader.attempt(uploader.probe)
    # What an earlier run left in the outbox goes out before anything new is made.
    uploader.attempt(uploader.send)
    for _ in range(_ROUNDS):
        uploader.taken.clear()
        maker = SegmentMaker(plan.state, plan.tools)
        candidates = plan.refresh()
        plan.on_step("synced")
        segments = maker.make(candidates)
        while _fill_outbox(plan, segments, report):
            uploader.attempt(uploader.send)
            maker.changed.update(uploader.taken)
        report.failed = maker.failed
        # Where another collector was faster, sync once more before going on: it may have read further than our store.
        if not uploader.taken:
            break
    plan.state.release_pages()
    # After the segments, never before: a manifest may be behind them, but one that is ahead would report a loss.
    if publishes and plan.state.is_unpublished:
        uploader.attempt(lambda: publish_progress(plan))
    if uploader.failure:
        raise describe_pending(plan, uploader.failure, report)


class _Uploader:
    """Uploads until the object store fails once."""

    def __init__(self, plan: CollectionPlan, report: CollectionReport) -> None:
        self._plan, self._report = plan, report
        self.failure: ObjectStoreFailed | None = None
        self.taken: set[int] = set()
        """Streams that another collector has sent segments of."""

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
            plan.object_store.probe(name, f"{plan.tools.clock()}\n".encode())
            report.ahead = plan.milliseconds() / 1000 - plan.object_store.clock(name).timestamp()
            report.is_probed = True

    def send(self) -> None:
        """Send the whole outbox."""
        plan, report = self._plan, self._report
        while plan.state.waiting(plan.refuses):
            upload_outbox(plan, report, self.taken)


def preview_segments(plan: CollectionPlan, report: CollectionReport) -> None:
    """Make all segments for the report of `--dry-run`; keep and send none."""
    candidates = plan.refresh()
    database = plan.state.database
    # The maker writes positions as it goes: the transaction is rolled back so that nothing counts as collected.
    database.execute("BEGIN IMMEDIATE")
    try:
        maker = SegmentMaker(plan.state, plan.tools, keep=False)
        for segment in maker.make(candidates):
            report.add_made(segment)
            report.segments += 1
            report.lines += segment.lines
            report.bytes += segment.size
            report.redactions += segment.counts.total()
        report.failed = maker.failed
    finally:
        database.execute("ROLLBACK")


def publish_progress(plan: CollectionPlan) -> None:
    """Write the manifest of this device."""
    enrolment = plan.tools.enrolment
    manifest = DeviceManifest(
        org=enrolment.org,
        user=enrolment.user,
        device=enrolment.device,
        written=plan.tools.clock(),
        streams=plan.state.sent(),
    )
    publish_manifest(plan.object_store, manifest)
    plan.on_step("published")
    # Only now: a process killed before this line writes the same manifest again.
    plan.state.mark_published()


def _fill_outbox(plan: CollectionPlan, segments: Iterator[MadeSegments], report: CollectionReport) -> bool:
    """Make one batch of segments; return whether there was any."""
    pending = sum(segment.size for segment in plan.state.waiting())
    report.is_full = pending >= plan.outbox
    if report.is_full:
        return False
    room, count = min(_BATCH_BYTES, plan.outbox - pending), 0
    # Segments and the positions they reach are one transaction: a process killed in here has made nothing.
    with transaction(plan.state.database):
        for segment in segments:
            report.add_made(segment)
            count += 1
            room -= segment.size
            if room <= 0 or count >= _BATCH_SEGMENTS:
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
    from threading import Lock

    free_at, lock = [time.monotonic()], Lock()

    def pace(size: int) -> None:
        # Several streams are sent at once: each reserves its time under the lock and sleeps outside it.
        with lock:
            start = max(free_at[0], time.monotonic())
            free_at[0] = start + size / rate
        sleep(max(start - time.monotonic(), 0))

    return pace


def describe_pending(plan: CollectionPlan, failure: ObjectStoreFailed, report: CollectionReport) -> ObjectStoreFailed:
    """Return the failure with the number and size of the segments that wait in the outbox."""
    waiting = plan.state.waiting()
    size = sum(segment.size for segment in waiting) / 1e6
    words = f"{failure.message}; {len(waiting):,} segments ({size:,.1f} MB) wait"
    if report.is_full:
        words += "; the outbox is full, newer lines wait in their files"
    return ObjectStoreFailed(words, hint=failure.hint, is_final=failure.is_final)
