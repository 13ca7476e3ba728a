"""Bytes to lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.read.lines import Line, LineBuffer, LongLine

pieces = st.lists(st.text("ab\n", max_size=8).map(str.encode))


@given(pieces, st.integers(0, 10))
def test_where_a_read_ends_does_not_matter(pieces: list[bytes], limit: int) -> None:
    whole, cut = LineBuffer(max_line=limit), LineBuffer(max_line=limit)
    expected = whole.feed(b"".join(pieces)) + whole.finish()
    assert [line for piece in pieces for line in cut.feed(piece)] + cut.finish() == expected


@given(pieces, st.integers(0, 10), st.integers(0, 100))
def test_lines_cover_what_was_fed(pieces: list[bytes], limit: int, offset: int) -> None:
    data, at = b"".join(pieces), offset
    buffer = LineBuffer(offset, limit)
    for line in [line for piece in pieces for line in buffer.feed(piece)] + buffer.finish():
        assert line.offset == at
        length = line.length if isinstance(line, LongLine) else len(line.data)
        assert isinstance(line, LongLine) == (length > limit)
        if isinstance(line, Line):
            assert bytes(line.data) == data[at - offset : at - offset + length]
        at += length
    assert at == offset + len(data) == buffer.offset


def test_the_offset_is_that_of_the_unfinished_line() -> None:
    buffer = LineBuffer()
    buffer.feed(b"ab\ncd")
    assert buffer.offset == 3
    assert bytes(buffer.finish()[0].data) == b"cd"  # type: ignore[union-attr]
    assert buffer.finish() == []


def test_a_line_too_long_is_not_held() -> None:
    buffer = LineBuffer(max_line=10)
    for _ in range(100):
        assert buffer.feed(b"x" * 1000) == []
        assert len(buffer._held) <= 10
    assert buffer.feed(b"\nab\n") == [LongLine(0, 100_001), Line(100_001, memoryview(b"ab\n"))]
