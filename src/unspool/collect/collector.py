"""Sends what is new in a config folder to an object store, once or continuously.

    store ─ selection ▶ candidates ─ content ▶ bytes ─ cutting ▶ redacted lines ─ making ▶ outbox ─ sending ▶ place

Rules
  1. A killed collector loses nothing and sends nothing twice. `STEPS` names the places.
  2. The outbox is bounded. When it is full nothing more is made: what is newer stays in its file and the archive.
  3. The clock is written down and never compared: one that was moved changes nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from unspool.collect.manifest import DeviceManifest, publish_manifest
from unspool.collect.object_store import SegmentStore
from unspool.collect.segment_maker import MadeSegments, SegmentMaker, SegmentTools
from unspool.collect.selection import CollectCandidate
from unspool.collect.state import CollectorState
from unspool.collect.upload import SegmentSender, UploadOutcome, upload_outbox
from unspool.errors import ObjectStoreFailed
from unspool.store import transaction

STEPS = ("synced", "cut", "kept", "sending", "put", "acknowledged", "adopted", "published", "told")
"""The places where a collector may be killed. `cut` to `acknowledged` come again and again; `adopted` only if somebody
else collects for the same device."""

OUTBOX = 64 * 1024 * 1024
"""Bytes that may wait."""
_PORTION, _MANY = 16 * 1024 * 1024, 256
"""Bytes and segments that are made before they are sent."""
_ROUNDS = 50
"""How often somebody else may be faster."""


class CollectionPlan(NamedTuple):
    """What a collector is to do, and with what."""

    state: CollectorState
    place: SegmentStore
    tools: SegmentTools
    refresh: Callable[[], list[CollectCandidate]]
    """Brings the store up to date and returns what there is to collect."""
    milliseconds: Callable[[], int]
    at: Callable[[str], None] = lambda _: None
    """Told which of `STEPS` was reached."""
    pace: Callable[[int], None] = lambda _: None
    outbox: int = OUTBOX
    refuses: Callable[[str], bool] = lambda _: False
    """Tells whether nothing of a file may be sent: what waits of it goes on waiting."""


class CollectionReport:
    """What a collector did."""

    def __init__(self) -> None:
        self.segments = self.bytes = self.lines = self.redactions = 0
        """What was confirmed."""
        self.source_bytes = 0
        self.counts: Counter[str] = Counter()
        """Secrets by kind, in the segments that were made."""
        self.failed: list[tuple[str, str]] = []
        self.is_full = False
        """Whether the outbox is full."""
        self.is_probed = False
        self.ahead = 0.0
        """Seconds that this machine's clock is ahead of the store's."""

    def made(self, made: MadeSegments) -> None:
        """Count a segment that was made."""
        self.counts.update(made.counts)
        self.source_bytes += made.source_bytes


def collect_sessions(plan: CollectionPlan, report: CollectionReport, *, publishes: bool = True) -> None:
    """Send all that is new. A store that fails is asked no more, but the outbox is filled; then the failure is raised.

    What was done before is in the report.
    """
    sending = _Sending(plan, report)
    sending.attempt(sending.probe)
    sending.attempt(sending.send)  # what waits from before
    for _ in range(_ROUNDS):
        sending.taken.clear()
        maker = SegmentMaker(plan.state, plan.tools)
        candidates = plan.refresh()
        plan.at("synced")
        making = maker.make(candidates)
        while _fill(plan, making, report):
            sending.attempt(sending.send)
            maker.changed.update(sending.taken)
        report.failed = maker.failed
        if not sending.taken:
            break
    if publishes and plan.state.is_unpublished:
        sending.attempt(lambda: publish_progress(plan))
    if sending.failure:
        raise wait_for_changes(plan, sending.failure, report)


class _Sending:
    """Sends until the store fails."""

    def __init__(self, plan: CollectionPlan, report: CollectionReport) -> None:
        self._plan, self._report = plan, report
        self.failure: ObjectStoreFailed | None = None
        self.taken: list[int] = []
        """Streams of which somebody else has sent something."""

    def attempt(self, work: Callable[[], None]) -> None:
        """Do something with the store, unless it has failed before."""
        if self.failure is None:
            try:
                work()
            except ObjectStoreFailed as failure:
                self.failure = failure

    def probe(self) -> None:
        """Make sure that the store is good for it, once in a process."""
        plan, report = self._plan, self._report
        if not report.is_probed:
            enrolment = plan.tools.enrolment
            name = f"{enrolment.org}/{enrolment.device}"
            plan.place.probe(name, f"{plan.tools.clock()}\n".encode())
            report.ahead = plan.milliseconds() / 1000 - plan.place.clock(name).timestamp()
            report.is_probed = True

    def send(self) -> None:
        """Send all that waits."""
        plan, report = self._plan, self._report
        sender = SegmentSender(plan.place, plan.milliseconds, plan.at, plan.pace, plan.refuses)
        while plan.state.waiting(plan.refuses):
            outcome = UploadOutcome([], [])
            try:
                upload_outbox(plan.state, sender, outcome)
            finally:
                report.segments += len(outcome.confirmed)
                report.bytes += sum(one.size for one in outcome.confirmed)
                report.lines += sum(one.lines for one in outcome.confirmed)
                report.redactions += sum(one.redactions for one in outcome.confirmed)
                self.taken += outcome.taken


def preview_segments(plan: CollectionPlan, report: CollectionReport) -> None:
    """Make all segments, and keep and send none."""
    candidates = plan.refresh()
    database = plan.state.database
    database.execute("BEGIN IMMEDIATE")
    try:
        maker = SegmentMaker(plan.state, plan.tools, keep=False)
        for made in maker.make(candidates):
            report.made(made)
            report.segments += 1
            report.lines += made.lines
            report.bytes += made.size
            report.redactions += made.counts.total()
        report.failed = maker.failed
    finally:
        database.execute("ROLLBACK")


def publish_progress(plan: CollectionPlan) -> None:
    """Write the manifest."""
    enrolment = plan.tools.enrolment
    manifest = DeviceManifest(
        org=enrolment.org,
        user=enrolment.user,
        device=enrolment.device,
        written=plan.tools.clock(),
        streams=plan.state.sent(),
    )
    publish_manifest(plan.place, manifest)
    plan.at("published")
    plan.state.published()


def _fill(plan: CollectionPlan, making: Iterator[MadeSegments], report: CollectionReport) -> bool:
    """Make some segments; tell whether any were made."""
    weight = sum(one.size for one in plan.state.waiting())
    report.is_full = weight >= plan.outbox
    if report.is_full:
        return False
    most, number = min(_PORTION, plan.outbox - weight), 0
    with transaction(plan.state.database):
        for made in making:
            report.made(made)
            number += 1
            most -= made.size
            if most <= 0 or number >= _MANY:
                break
        if number:
            plan.at("cut")
    if number:
        plan.at("kept")
    return number > 0


def limit_rate(rate: int | None, sleep: Callable[[float], None] = time.sleep) -> Callable[[int], None]:
    """Return what waits so that no more than so many bytes a second are sent."""
    if not rate:
        return lambda _: None
    from threading import Lock

    free, lock = [time.monotonic()], Lock()

    def pace(size: int) -> None:
        with lock:
            start = max(free[0], time.monotonic())
            free[0] = start + size / rate
        sleep(max(start - time.monotonic(), 0))

    return pace


def wait_for_changes(plan: CollectionPlan, failure: ObjectStoreFailed, report: CollectionReport) -> ObjectStoreFailed:
    """Return a failure with what is to be said of what waits."""
    waiting = plan.state.waiting()
    size = sum(one.size for one in waiting) / 1e6
    words = f"{failure.message}; {len(waiting):,} segments ({size:,.1f} MB) wait"
    if report.is_full:
        words += ", the outbox is full, and what is newer stays in its files"
    return ObjectStoreFailed(words, hint=failure.hint, is_final=failure.is_final)
