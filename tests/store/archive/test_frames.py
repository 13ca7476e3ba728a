"""Frames: what is fed in comes out, cut at the ends of lines."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.read.lines import LineBuffer
from unspool.store.archive.archive import (
    FRAME_BYTES,
    MAX_HELD_BYTES,
    ArchiveFrame,
    FrameBuilder,
    compress,
    decompress,
    split_into_frames,
)

pieces = st.lists(st.text("ab\n", max_size=12).map(str.encode), max_size=8)


def framed(pieces: list[bytes], start: int = 0) -> list[ArchiveFrame]:
    """Return the frames of a file that is read in these pieces."""
    framing, lines, frames = FrameBuilder(start), LineBuffer(start), []
    for piece in pieces:
        lines.feed(piece)
        framing.feed(piece, lines.offset)
        if framing.weight > 4 * FRAME_BYTES:
            frames += framing.take(lines.offset, is_last=False)
    return [*frames, *framing.take(lines.offset, is_last=True)]


def together(frames: list[ArchiveFrame], start: int = 0) -> bytes:
    """Return the bytes of frames that follow each other."""
    data = b""
    for frame in frames:
        assert frame.start == start + len(data)
        assert frame.length == len(decompress(frame.data)) > 0
        data += decompress(frame.data)
    return data


@given(pieces, st.integers(0, 10**6))
def test_frames_cover_what_was_fed_in_and_a_torn_line_has_its_own(pieces: list[bytes], start: int) -> None:
    frames, data = framed(pieces, start), b"".join(pieces)
    assert together(frames, start) == data
    whole = data[: data.rfind(b"\n") + 1]
    assert len(frames) == bool(whole) + (whole != data)
    assert not whole or decompress(frames[0].data) == whole


@pytest.mark.parametrize(
    "length",
    [100, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, MAX_HELD_BYTES - 1, MAX_HELD_BYTES + 1, 3 * MAX_HELD_BYTES],
)
def test_frames_end_where_lines_end_unless_a_line_is_very_long(length: int) -> None:
    noise = random.Random(length).randbytes(length - 1).replace(b"\n", b" ")
    data = b"x\n" + noise + b"\n" + b"short\n" * 100
    size = 256 * 1024
    frames = framed([data[at : at + size] for at in range(0, len(data), size)])
    assert together(frames) == data
    assert all(frame.length <= MAX_HELD_BYTES + size for frame in frames)
    if length < MAX_HELD_BYTES:
        assert all(decompress(frame.data).endswith(b"\n") for frame in frames)


@given(st.binary(max_size=100))
def test_a_side_file_is_one_frame_unless_it_is_empty(data: bytes) -> None:
    assert together(split_into_frames(data)) == data
    assert len(split_into_frames(data)) == bool(data)


def test_a_large_side_file_is_several() -> None:
    data = random.Random(1).randbytes(2 * FRAME_BYTES + 5)
    assert [frame.length for frame in split_into_frames(data)] == [FRAME_BYTES, FRAME_BYTES, 5]
    assert together(split_into_frames(data)) == data


@given(st.binary(min_size=20, max_size=200), st.data())
def test_a_byte_that_has_changed_in_a_frame_is_noticed(data: bytes, draw: st.DataObject) -> None:
    from backports.zstd import ZstdError

    frame = bytearray(compress(data))
    place = draw.draw(st.integers(len(frame) - 4, len(frame) - 1))  # the checksum is there
    frame[place] ^= 1
    with pytest.raises(ZstdError):
        decompress(bytes(frame))
