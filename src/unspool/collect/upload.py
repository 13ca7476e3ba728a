"""Uploads the segments in the outbox to an object store and confirms them.

Rules
  1. A segment leaves the outbox after the object store has confirmed it, or already has it byte for byte: then the
     response to an earlier put was lost, or the process was killed before it could record it.
  2. If another segment has its name, a second collector sends for the same device. What that one has sent is taken
     over, and the segments made here are made anew after it.
  3. Segments are sent by priority (`selection.RANKS`). Within one rank several streams are sent at once, each in order.
  4. What was confirmed is recorded even if another request failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import NamedTuple

from unspool.collect.manifest import SentStream
from unspool.collect.object_store import SegmentStore
from unspool.collect.segment_maker import CollectionPlan, CollectionReport
from unspool.collect.segments import (
    FIRST,
    SegmentName,
    format_segment_name,
    parse_segment_name,
    segment_digest,
    unpack_header,
)
from unspool.collect.state import CollectedSpan, CollectorState, WaitingSegment
from unspool.errors import ObjectStoreFailed, Unreadable

LANES = 8
"""Streams that are sent at once."""
_BATCH_BYTES = 32 * 1024 * 1024
"""Bytes that are held in memory at once."""


class _StreamOutcome(NamedTuple):
    """The result of sending the segments of one stream."""

    confirmed: list[WaitingSegment]
    collided: WaitingSegment | None = None
    """The segment whose name another segment has."""
    failure: ObjectStoreFailed | None = None


def upload_outbox(plan: CollectionPlan, report: CollectionReport, taken: set[int]) -> None:
    """Send the segments in the outbox; streams that another collector has sent segments of are added to `taken`.

    A failure is raised after what was confirmed is recorded.
    """
    state = plan.state
    with ThreadPoolExecutor(LANES) as pool:
        for batch in _batches(state.waiting(plan.refuses)):
            in_order = sorted(batch, key=lambda segment: (segment.stream_id, segment.sequence))
            streams = [list(group) for _, group in groupby(in_order, key=lambda segment: segment.stream_id)]
            # The bytes are read here: the connection to SQLite belongs to this thread.
            loaded = [[(segment, state.data(segment.id)) for segment in stream] for stream in streams]
            results = list(pool.map(lambda stream: _send_stream(plan, stream), loaded))
            confirmed = [segment for result in results for segment in result.confirmed]
            if confirmed:
                state.confirm(confirmed, plan.milliseconds())
                plan.on_step("acknowledged")
                report.add_confirmed(confirmed)
            for result in results:
                if result.collided is not None:
                    take_over_chain(state, plan.object_store, result.collided)
                    taken.add(result.collided.stream_id)
                    plan.on_step("adopted")
            failure = next((result.failure for result in results if result.failure), None)
            if failure:
                raise failure
            # The next batches were listed before the take-over deleted the outbox of these streams: list again.
            if any(result.collided for result in results):
                return


def take_over_chain(state: CollectorState, object_store: SegmentStore, segment: WaitingSegment) -> None:
    """Replace the state of a stream by the chain that the object store has, from its first segment on."""
    parts = parse_segment_name(segment.name)
    assert parts is not None
    sent, spans = SentStream(0, 0, FIRST), dict[int, CollectedSpan]()
    # From the first one: a name holds the digest of the segment before, so the last cannot be found without the others.
    for digest, data in _read_chain(object_store, parts):
        try:
            header = unpack_header(data)
        except Unreadable as error:
            where = f"segment {sent.sequence + 1} of the stream of `{segment.name}`"
            raise Unreadable(
                f"{where} is damaged: {error.message}", hint="restore it from the store's version history"
            ) from None
        sent = SentStream(header.sequence, sent.lines + header.lines, digest)
        spans[header.generation] = CollectedSpan(header.generation, header.end, header.head, header.boundary, "")
    state.adopt(segment.stream_id, sent, spans.values())


def _read_chain(object_store: SegmentStore, parts: SegmentName) -> Iterator[tuple[str, bytes]]:
    """Yield the digest and the bytes of each segment of a stream."""
    number, previous = 1, FIRST
    while (
        data := object_store.get(format_segment_name(parts._replace(sequence=number, previous=previous)))
    ) is not None:
        number, previous = number + 1, segment_digest(data)
        yield previous, data


def _send_stream(plan: CollectionPlan, segments: Iterable[tuple[WaitingSegment, bytes]]) -> _StreamOutcome:
    confirmed: list[WaitingSegment] = []
    for segment, data in segments:
        try:
            plan.pace(len(data))
            plan.on_step("sending")
            # A name that is taken is no error yet: it may be our own put, whose response was lost.
            is_stored = plan.object_store.put_new(segment.name, data) or _is_ours(plan.object_store, segment)
            plan.on_step("put")
        except ObjectStoreFailed as failure:
            return _StreamOutcome(confirmed, failure=failure)
        # Later segments of this stream continue one that the store does not have: none of them may be sent.
        if not is_stored:
            return _StreamOutcome(confirmed, collided=segment)
        confirmed.append(segment)
    return _StreamOutcome(confirmed)


def _is_ours(object_store: SegmentStore, segment: WaitingSegment) -> bool:
    """Return whether the object under a segment's name is that segment."""
    data = object_store.get(segment.name)
    if data is None:
        raise ObjectStoreFailed(
            f"the store at `{object_store.url}` reports `{segment.name}` both as present and as missing",
            hint="try again",
        )
    return segment_digest(data) == segment.digest


def _batches(waiting: list[WaitingSegment]) -> Iterator[list[WaitingSegment]]:
    """Yield segments that may be sent at once: of one rank, and not too many for memory."""
    for _, same_rank in groupby(waiting, key=lambda segment: segment.priority):
        batch, weight = list[WaitingSegment](), 0
        for segment in same_rank:
            batch.append(segment)
            weight += segment.size
            if weight >= _BATCH_BYTES:
                yield batch
                batch, weight = [], 0
        if batch:
            yield batch
