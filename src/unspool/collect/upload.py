"""Uploads the segments in the outbox to an object store and confirms them.

Rules
  1. A segment leaves the outbox after the store has confirmed it, or has it already, byte for byte: the answer to an
     earlier put was lost, or the process was killed before it could note it.
  2. If there is another segment in its place, somebody else collects for the same device. What they have sent is taken
     over, and what was made here is made anew after it.
  3. What matters more is sent first (`selection.RANKS`). Within one rank several streams are sent at once, each in
     order.
  4. What was confirmed is noted even if something else failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import NamedTuple

from unspool.collect.manifest import SentStream
from unspool.collect.object_store import SegmentStore
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
_AHEAD = 32 * 1024 * 1024
"""Bytes that are held in memory at once."""


class SegmentSender(NamedTuple):
    """What segments are sent with."""

    place: SegmentStore
    now: Callable[[], int]
    """Tells the time, in milliseconds since 1970."""
    at: Callable[[str], None]
    """Told which of `STEPS` was reached."""
    pace: Callable[[int], None]
    """Told how many bytes are about to be sent; waits as long as it must."""
    refuses: Callable[[str], bool] = lambda _: False
    """Tells whether nothing of a file may be sent."""


class UploadOutcome(NamedTuple):
    """What came of sending, as far as it came."""

    confirmed: list[WaitingSegment]
    taken: list[int]
    """Streams of which somebody else has sent something."""


class _Lane(NamedTuple):
    """What came of one stream."""

    confirmed: list[WaitingSegment]
    other: WaitingSegment | None = None
    """The segment in whose place there is another."""
    failure: ObjectStoreFailed | None = None


def upload_outbox(state: CollectorState, sender: SegmentSender, outcome: UploadOutcome) -> None:
    """Send what waits. A failure is raised in the end, after what was confirmed is noted."""
    with ThreadPoolExecutor(LANES) as pool:
        for batch in _batches(state.waiting(sender.refuses)):
            streams = [list(one) for _, one in groupby(sorted(batch, key=_by_stream), key=lambda one: one.stream_id)]
            loaded = [[(one, state.data(one.id)) for one in stream] for stream in streams]
            lanes = list(pool.map(lambda stream: _send_stream(sender, stream), loaded))
            confirmed = [one for lane in lanes for one in lane.confirmed]
            if confirmed:
                state.confirm(confirmed, sender.now())
                sender.at("acknowledged")
                outcome.confirmed.extend(confirmed)
            for lane in lanes:
                if lane.other is not None:
                    take_over_chain(state, sender.place, lane.other)
                    outcome.taken.append(lane.other.stream_id)
                    sender.at("adopted")
            failure = next((lane.failure for lane in lanes if lane.failure), None)
            if failure:
                raise failure
            if outcome.taken:  # what waits of these streams is not there any more
                return


def take_over_chain(state: CollectorState, place: SegmentStore, segment: WaitingSegment) -> None:
    """Take over what somebody else has sent of a stream: from its first segment on, as the store has it."""
    parts = parse_segment_name(segment.name)
    assert parts is not None
    sent, spans = SentStream(0, 0, FIRST), dict[int, CollectedSpan]()
    for header_digest, data in _chain(place, parts):
        try:
            header = unpack_header(data)
        except Unreadable as error:
            where = f"segment {sent.sequence + 1} of the stream of `{segment.name}`"
            raise Unreadable(
                f"{where} is damaged: {error.message}", hint="the store's own versions may have it"
            ) from None
        sent = SentStream(header.sequence, sent.lines + header.lines, header_digest)
        spans[header.generation] = CollectedSpan(header.generation, header.end, header.head, header.boundary, "")
    state.adopt(segment.stream_id, sent, spans.values())


def _chain(place: SegmentStore, parts: SegmentName) -> Iterator[tuple[str, bytes]]:
    """Yield the segments of a stream, each with its digest."""
    number, last = 1, FIRST
    while (data := place.get(format_segment_name(parts._replace(sequence=number, previous=last)))) is not None:
        number, last = number + 1, segment_digest(data)
        yield last, data


def _send_stream(sender: SegmentSender, segments: Iterable[tuple[WaitingSegment, bytes]]) -> _Lane:
    confirmed: list[WaitingSegment] = []
    for one, data in segments:
        try:
            sender.pace(len(data))
            sender.at("sending")
            is_there = sender.place.put_new(one.name, data) or _is_ours(sender.place, one)
            sender.at("put")
        except ObjectStoreFailed as failure:
            return _Lane(confirmed, failure=failure)
        if not is_there:
            return _Lane(confirmed, other=one)
        confirmed.append(one)
    return _Lane(confirmed)


def _is_ours(place: SegmentStore, segment: WaitingSegment) -> bool:
    """Tell whether what is in a segment's place is that segment."""
    data = place.get(segment.name)
    if data is None:
        raise ObjectStoreFailed(f"the store at `{place.url}` has `{segment.name}`, and has it not", hint="try again")
    return segment_digest(data) == segment.digest


def _batches(waiting: list[WaitingSegment]) -> Iterator[list[WaitingSegment]]:
    """Yield what may be sent at once: of one rank, and not too much for memory."""
    for _, rank in groupby(waiting, key=lambda one: one.priority):
        batch, weight = list[WaitingSegment](), 0
        for one in rank:
            batch.append(one)
            weight += one.size
            if weight >= _AHEAD:
                yield batch
                batch, weight = [], 0
        if batch:
            yield batch


def _by_stream(one: WaitingSegment) -> tuple[int, int]:
    return one.stream_id, one.sequence
