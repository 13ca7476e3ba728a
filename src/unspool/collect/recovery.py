"""Takes over what the object store has of this device and this machine does not know.

That is so if the state was lost, or if a second collector sends for the same device.

Rules
  1. A chain is followed by its names alone: each segment says what the next one is called.
  2. Of what a second collector has sent, this one takes the ends of the streams; its own parts of them are made anew.
  3. A state that does not know what its device has sent reads everything: both layouts, from the first segment on.
  4. A rewritten segment counts as the one that its signed tombstone names. Files in forgotten parts look like new ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from unspool.collect.manifest import SentStream
from unspool.collect.segment_maker import CollectionPlan
from unspool.collect.segments import (
    FIRST,
    FOLDER,
    DeviceSegmentName,
    SegmentName,
    format_device_segment_name,
    format_segment_name,
    parse_device_segment_name,
    parse_segment_name,
    read_original,
    unpack_header,
)
from unspool.collect.state import CollectedSpan
from unspool.collect.trust.tombstones import original_digest
from unspool.errors import Unreadable

_RESTORE = "restore it from the store's version history"


def recover_state(plan: CollectionPlan) -> list[int]:
    """Ask the object store what this device has sent, if that is not known; return the streams it has sent."""
    state, enrolment = plan.state, plan.tools.enrolment
    if state.is_asked:
        return []
    taken = set(state.forget_all() if state.chain_end().sequence else ())
    names = [listed.name for listed in plan.object_store.names(f"{FOLDER}/{enrolment.org}/{enrolment.device}")]
    for stream in sorted({parts.stream for parts in map(parse_segment_name, names) if parts}):
        stream_id = state.stream(stream, "").id
        first = SegmentName(enrolment.org, enrolment.device, stream, 1, FIRST)
        take_over_chain(plan, stream_id, first)
        taken.add(stream_id)
    if any(parse_device_segment_name(name) for name in names):
        taken.update(follow_others(plan, is_recovery=True))
    state.mark_asked()
    return sorted(taken)


def follow_others(plan: CollectionPlan, *, is_recovery: bool = False) -> list[int]:
    """Continue the chain after the segments that the store has beyond those that were confirmed here."""
    state, taken, is_first = plan.state, set[int](), not is_recovery
    enrolment, start = plan.tools.enrolment, state.chain_end().last
    folder = f"{FOLDER}/{enrolment.org}/{enrolment.device}"
    # S3 answers a get of a missing object with 403 unless the whole bucket may be listed, so what is not listed is not
    # asked for. But the first one is known to exist if its name was taken, and a listing may come late.
    listed = {one.name for one in plan.object_store.names(folder, after=start or f"{folder}/1", before=f"{folder}/3")}
    while True:
        end, name = state.chain_end(), _next_name(plan)
        data = plan.object_store.get(name) if is_first or name in listed else None
        is_first = False
        if data is None:
            return sorted(taken)
        try:
            outcome = state.follow_other(name, stored_digest(plan, name, data), data)
        except Unreadable as error:
            where = f"segment {end.sequence + 1} of this device, `{name}`,"
            raise Unreadable(f"{where} is damaged: {error.message}", hint=_RESTORE) from None
        taken.update(outcome.streams)
        if not outcome.fits:
            if is_recovery:
                raise Unreadable(f"`{name}` does not continue its streams", hint=_RESTORE)
            # It continues parts that are not known here: everything is read again.
            return sorted({*taken, *state.forget_all(), *recover_state(plan)})


def stored_digest(plan: CollectionPlan, name: str, data: bytes) -> str:
    """Return the digest with which the chain continues after an object, which an administrator may have rewritten."""
    return original_digest(plan.object_store.get, plan.trusted, name, data, read_original(data))


def take_over_chain(plan: CollectionPlan, stream_id: int, name: SegmentName) -> None:
    """Replace the state of a stream by the segments of it alone that the store has, from the first one on."""
    sent, spans = SentStream(0, 0, FIRST), dict[int, CollectedSpan]()
    # From the first one: a name holds the digest of the segment before, so the last cannot be found without the others.
    for digest, data in _read_chain(plan, name):
        try:
            header = unpack_header(data)
        except Unreadable as error:
            where = f"segment {sent.sequence + 1} of the stream `{name.stream}`"
            raise Unreadable(f"{where} is damaged: {error.message}", hint=_RESTORE) from None
        sent = SentStream(header.sequence, sent.lines + header.lines, digest)
        spans[header.generation] = CollectedSpan(header.generation, header.end, header.head, header.boundary, "")
    plan.state.adopt(stream_id, sent, spans.values())


def _read_chain(plan: CollectionPlan, parts: SegmentName) -> Iterator[tuple[str, bytes]]:
    """Yield the digest and the bytes of each segment of a stream."""
    number, previous = 1, FIRST
    while True:
        name = format_segment_name(parts._replace(sequence=number, previous=previous))
        data = plan.object_store.get(name)
        if data is None:
            return
        number, previous = number + 1, stored_digest(plan, name, data)
        yield previous, data


def _next_name(plan: CollectionPlan) -> str:
    end, enrolment = plan.state.chain_end(), plan.tools.enrolment
    return format_device_segment_name(
        DeviceSegmentName(enrolment.org, enrolment.device, end.day, end.sequence + 1, end.digest)
    )
