"""The collector's state: small when nothing waits."""

from __future__ import annotations

import os
from pathlib import Path

from unspool.collect.state import NAME, CollectedSpan, WaitingSegment, open_state


def _segment(stream_id: int, sequence: int, size: int) -> WaitingSegment:
    return WaitingSegment(
        id=0,
        stream_id=stream_id,
        sequence=sequence,
        name=f"segments/{sequence}",
        digest="0" * 64,
        priority=1,
        lines=1,
        redactions=0,
        size=size,
    )


def _space(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{NAME}*"))


def test_the_space_of_segments_that_were_sent_is_given_back(tmp_path: Path) -> None:
    size = 1 << 20
    with open_state(tmp_path, "file:///x", "acme", "d1") as state:
        stream = state.stream("s", "/a.jsonl")
        for sequence in range(1, 13):
            state.keep(_segment(stream.id, sequence, size), os.urandom(size))
        state.put_span(stream.id, CollectedSpan(1, 5, "h", "b", "seen"))
        state.release_pages()
        assert len(state.waiting()) == 12
        state.confirm(state.waiting()[:11], 0)
        state.release_pages()
        assert _space(tmp_path) > 5 * size  # one waits still
        state.confirm(state.waiting(), 0)
        state.release_pages()
        assert _space(tmp_path) < size
        assert state.spans(stream.id) == [CollectedSpan(1, 5, "h", "b", "seen")]
        assert state.sent()["s"].sequence == 12
