"""Frames from bytes that are cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.api.sse import EventTooLarge, ServerSentEvent, SseParser

CASES = {
    "one": (b"event: ping\ndata: {}\n\n", [ServerSentEvent("ping", "{}")]),
    "ends of lines": (
        b"event: a\r\ndata: 1\r\n\r\ndata: 2\r\rdata: 3\n\n",
        [ServerSentEvent("a", "1"), ServerSentEvent("message", "2"), ServerSentEvent("message", "3")],
    ),
    "several lines of data": (b"data: a\ndata:b\ndata\n\n", [ServerSentEvent("message", "a\nb\n")]),
    "a space of its own": (b"data:  a\n\n", [ServerSentEvent("message", " a")]),
    "comments and other fields": (b": hi\nid: 1\nretry: 5\ndata: a\n\n", [ServerSentEvent("message", "a")]),
    "a name alone": (b"event: a\n\ndata: b\n\n", [ServerSentEvent("message", "b")]),
    "a mark at the beginning": (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [ServerSentEvent("message", "a")]),
    "no UTF-8": (b"data: \xff\n\n", [ServerSentEvent("message", "\ufffd")]),
    "unfinished": (b"data: a\n\ndata: b\n", [ServerSentEvent("message", "a")]),
    "blank lines": (b"\n\n\r\n\rdata: a\n\n\n", [ServerSentEvent("message", "a")]),
}


@pytest.mark.parametrize(("data", "frames"), CASES.values(), ids=CASES)
def test_bytes_become_frames(data: bytes, frames: list[ServerSentEvent]) -> None:
    assert SseParser().feed(data) == frames


lines = st.sampled_from([b"data: a", b"data:\xc3\xa9", b"event: ping", b": c", b"", b"", b"\xef\xbb\xbfdata: x", b"id"])
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
streams = st.lists(st.tuples(lines, ends).map(b"".join), max_size=12).map(b"".join)


@given(streams, st.data())
def test_where_the_bytes_are_cut_does_not_matter(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    cut = SseParser()
    found = [frame for piece in pieces for frame in cut.feed(piece)]
    assert found == SseParser().feed(data)


@given(streams)
def test_a_byte_at_a_time_gives_the_same(data: bytes) -> None:
    slow = SseParser()
    assert [frame for at in range(len(data)) for frame in slow.feed(data[at : at + 1])] == SseParser().feed(data)


@pytest.mark.parametrize("piece", [b"x" * 60, b"data: xxxxxxxxxx\n" * 6])
def test_a_frame_that_never_ends_is_an_error(piece: bytes) -> None:
    with pytest.raises(EventTooLarge):
        SseParser(largest=50).feed(piece)
    assert SseParser(largest=50).feed(b"data: a\n\n" * 50)
