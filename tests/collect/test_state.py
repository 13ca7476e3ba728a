"""The collector's state: small when nothing waits."""

from __future__ import annotations

import os
from pathlib import Path

from tests.collect.test_segments import header
from unspool.collect.segments import (
    FIRST,
    FIRST_DAY,
    DeviceSegmentName,
    SegmentLine,
    encode_part,
    format_device_segment_name,
)
from unspool.collect.state import NAME, CollectedSpan, CollectorCondition, PackedSegment, WaitingPart, open_state
from unspool.store.archive import compress

HEADER = header(1)


def _part(stream_id: int, sequence: int, size: int) -> WaitingPart:
    return WaitingPart(
        id=0,
        stream_id=stream_id,
        sequence=sequence,
        name="",
        digest="0" * 64,
        priority=1,
        lines=1,
        redactions=0,
        size=size,
        length=size,
        source_generation=1,
    )


def _space(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{NAME}*"))


def test_the_space_of_parts_that_were_sent_is_given_back(tmp_path: Path) -> None:
    size = 1 << 20
    with open_state(tmp_path, "file:///x", "acme", "d1") as state:
        stream = state.stream("s", "/a.jsonl")
        for sequence in range(1, 13):
            text = encode_part(HEADER, [SegmentLine(0, size, os.urandom(size // 2).hex())])
            state.keep(_part(stream.id, sequence, size), compress(text))
        state.put_span(stream.id, CollectedSpan(1, 5, "h", "b", "seen"))
        state.release_pages()
        assert len(state.waiting()) == 12
        for count in (11, 1):
            name = DeviceSegmentName("acme", "d1", FIRST_DAY, state.chain_end().sequence + 1, FIRST)
            segment = PackedSegment(format_device_segment_name(name), "0" * 64, FIRST_DAY, b"")
            state.keep_packed(segment, state.parts_to_pack(state.waiting()[:count], "here"))
            state.confirm_packed(segment, 0)
            state.release_pages()
            assert (_space(tmp_path) > 5 * size) == (count == 11)  # one waits still
        assert _space(tmp_path) < size
        assert state.spans(stream.id) == [CollectedSpan(1, 5, "h", "b", "seen")]
        assert state.sent()["s"].sequence == 12


def test_the_condition_counts_failures_in_a_row_and_the_secrets_of_what_was_sent(tmp_path: Path) -> None:
    with open_state(tmp_path, "file:///x", "acme", "d1") as state:
        assert state.condition() == CollectorCondition(None, None, 0, 0, 0)
        state.note_look(5, 2, is_refused=True)
        state.note_look(6, 1, is_refused=True)
        assert state.condition() == CollectorCondition(None, 6, 0, failed=1, refused=2)
        stream = state.stream("s", "/a.jsonl")
        for sequence in (1, 2):
            text = encode_part(HEADER, [SegmentLine(0, 1, "1")])
            state.keep(_part(stream.id, sequence, 1)._replace(redactions=3), compress(text))
        name = DeviceSegmentName("acme", "d1", FIRST_DAY, 1, FIRST)
        segment = PackedSegment(format_device_segment_name(name), "0" * 64, FIRST_DAY, b"")
        state.keep_packed(segment, state.parts_to_pack(state.waiting(), "here"))
        state.confirm_packed(segment, 7)
        state.note_look(8, 0, is_refused=False)
        assert state.condition() == CollectorCondition(7, 8, 6, failed=0, refused=0)
