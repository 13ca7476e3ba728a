"""Packs parts of the outbox into segments, uploads them to an object store and confirms them.

Rules
  1. A segment and its parts leave the outbox after the object store has confirmed it, or already has it byte for byte:
     then the response to an earlier put was lost, or the process was killed before it could record it.
  2. If another segment has its name, a second collector sends for the same device. The chain is continued after what
     that one has sent, and parts made here of the same streams are made anew.
  3. Parts are packed by priority (`selection.RANKS`), as many as are due up to the size of a segment.
  4. A packed segment with a part that may no longer be sent is looked up in the store. If it is there, it was sent; if
     not, it is taken apart and that part waits.
  5. An outbox of an earlier version may hold segments of single streams. They are sent first; a stream that has one
     there is not packed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from unspool.collect.recovery import follow_others, stored_digest, take_over_chain
from unspool.collect.segment_maker import CollectionPlan, CollectionReport
from unspool.collect.segments import (
    VERSION,
    DeviceSegmentHeader,
    DeviceSegmentName,
    following_day,
    format_device_segment_name,
    pack_device_segment,
    parse_segment_name,
    segment_digest,
)
from unspool.collect.state import PackedSegment, WaitingPart
from unspool.errors import ObjectStoreFailed


class UploadOutcome(NamedTuple):
    """What one step of an upload did."""

    is_sent: bool
    """False if there is nothing more to send."""
    taken: list[int]
    """Streams of which another collector has sent parts."""


def upload_next(plan: CollectionPlan, report: CollectionReport) -> UploadOutcome:
    """Send the next segment of the outbox."""
    waiting = plan.state.waiting(plan.refuses)
    old = next((segment for segment in waiting if segment.name), None)
    if old is not None:
        return _send_old(plan, report, old)
    packed = plan.state.packed()
    is_refused = packed is not None and any(plan.refuses(path) for path in plan.state.packed_paths())
    if packed is not None and is_refused and not settle_packed(plan, packed):
        packed = None
    if packed is None:
        packed = _pack(plan, waiting)
        if packed is None:
            return UploadOutcome(is_sent=False, taken=[])
        plan.on_step("packed")
    plan.pace(len(packed.data))
    plan.on_step("sending")
    # A name that is taken is no error yet: it may be our own put, whose response was lost.
    is_stored = plan.object_store.put_new(packed.name, packed.data)
    if not is_stored:
        is_stored = _digest_of(plan, packed.name) == packed.digest
    plan.on_step("put")
    if not is_stored:
        taken = follow_others(plan)
        plan.on_step("adopted")
        return UploadOutcome(is_sent=True, taken=taken)
    report.add_confirmed(plan.state.confirm_packed(packed, plan.milliseconds()), len(packed.data))
    plan.on_step("acknowledged")
    return UploadOutcome(is_sent=True, taken=[])


def fit_segment(lengths: Iterator[int], size: int) -> int:
    """Return how many parts, given by their bytes in the source, become one segment: one at least.

    >>> fit_segment(iter([4, 4, 4]), 8), fit_segment(iter([9, 1]), 8)
    (2, 1)
    """
    count, total = 0, 0
    for length in lengths:
        total += length
        if count and total > size:
            break
        count += 1
    return count


def _pack(plan: CollectionPlan, waiting: list[WaitingPart]) -> PackedSegment | None:
    """Pack the parts that come first into a segment and keep it; None if there are none."""
    state, enrolment, written = plan.state, plan.tools.enrolment, plan.tools.clock()
    held = state.streams_with_old_segments()
    ready = [part for part in waiting if part.stream_id not in held]
    if not ready:
        return None
    end = state.chain_end()
    name = DeviceSegmentName(enrolment.org, enrolment.device, end.day, end.sequence + 1, end.digest)
    count = fit_segment((part.length for part in ready), plan.tools.size)
    parts = state.parts_to_pack(ready[:count], name.tail)
    next_day = following_day(end.day, written)
    header = DeviceSegmentHeader(
        version=VERSION,
        org=enrolment.org,
        user=enrolment.user,
        device=enrolment.device,
        sequence=name.sequence,
        previous=end.digest,
        day=name.day,
        next_day=next_day,
        written=written,
        parts=[part.entry for part in parts],
    )
    data = pack_device_segment(header, (part.text for part in parts), enrolment.key_for(name.sequence))
    packed = PackedSegment(format_device_segment_name(name), segment_digest(data), next_day, data)
    state.keep_packed(packed, parts)
    return packed


def settle_packed(plan: CollectionPlan, packed: PackedSegment) -> bool:
    """Return whether the store has the segment that is being sent; if not, it is taken apart."""
    data = plan.object_store.get(packed.name)
    if data is not None and stored_digest(plan, packed.name, data) == packed.digest:
        return True
    plan.state.unpack()
    return False


def _digest_of(plan: CollectionPlan, name: str) -> str:
    data = plan.object_store.get(name)
    if data is None:
        raise ObjectStoreFailed(
            f"the store at `{plan.object_store.url}` reports `{name}` both as present and as missing", hint="try again"
        )
    return stored_digest(plan, name, data)


def _send_old(plan: CollectionPlan, report: CollectionReport, segment: WaitingPart) -> UploadOutcome:
    """Send a segment of an earlier version."""
    data = plan.state.data(segment.id)
    plan.pace(len(data))
    plan.on_step("sending")
    is_stored = plan.object_store.put_new(segment.name, data)
    if not is_stored and _digest_of(plan, segment.name) != segment.digest:
        parts = parse_segment_name(segment.name)
        assert parts is not None
        take_over_chain(plan, segment.stream_id, parts)
        return UploadOutcome(is_sent=True, taken=[segment.stream_id])
    plan.state.confirm(segment, plan.milliseconds())
    report.add_confirmed([segment], len(data))
    return UploadOutcome(is_sent=True, taken=[])
