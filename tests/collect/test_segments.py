"""Segments: what goes in comes out, and what is damaged is named."""

from __future__ import annotations

import sys
import tracemalloc
from contextlib import suppress
from importlib import import_module

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.lake.sending import name_segment, pack_segment
from unspool.collect.segments import (
    FIRST,
    FIRST_DAY,
    VERSION,
    DeviceSegmentHeader,
    PartEntry,
    SegmentHeader,
    SegmentLine,
    SegmentName,
    decode_part,
    encode_part,
    format_segment_name,
    pack_device_segment,
    parse_segment_name,
    segment_digest,
    unpack_device_segment,
    unpack_header,
    unpack_segment,
)
from unspool.errors import Unreadable
from unspool.store.archive.archive import compress

STREAM = "0123456789abcdef" * 2


def header(lines: int = 0, sequence: int = 1, previous: str = FIRST) -> SegmentHeader:
    return SegmentHeader(
        version=VERSION, org="acme", user="me", device="d1", key_id="k", stream=STREAM, sequence=sequence,
        previous=previous, project="-p", source="projects/-p/a.jsonl", kind="session", session="a", generation=1,
        start=0, end=10, lines=lines, rules="r", redactions={"jwt": 2}, written="2026-01-05T00:00:00Z",
        head="h", boundary="b",
    )  # fmt: skip


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.builds(SegmentLine, st.integers(0, 2**53), st.integers(0, 2**53), texts, st.booleans())))
def test_what_goes_into_a_segment_comes_out(lines: list[SegmentLine]) -> None:
    data = pack_segment(header(len(lines)), lines)
    assert unpack_segment(data) == (header(len(lines)), lines)
    assert unpack_header(data) == header(len(lines))


@given(st.integers(0, 400), st.integers(1, 255))
def test_a_segment_in_which_a_byte_has_changed_is_never_read_as_another(place: int, change: int) -> None:
    lines = [SegmentLine(0, 3, "one"), SegmentLine(4, 3, "two")]
    data = bytearray(pack_segment(header(2), lines))
    data[place % len(data)] ^= change
    with suppress(Unreadable):
        assert unpack_segment(bytes(data)) == (
            header(2),
            lines,
        )  # a byte that says nothing, as of the frame's own header


@pytest.mark.parametrize("cut", [0, 1, 10, -1])
def test_a_segment_that_was_cut_is_named(cut: int) -> None:
    with pytest.raises(Unreadable, match=r"(invalid|incomplete) segment"):
        unpack_segment(pack_segment(header(1), [SegmentLine(0, 1, "x")])[:cut])


def test_what_is_not_a_segment_is_named() -> None:
    for data in (b"", b"words", compress(b"words"), compress(b"{}"), compress(b"\xff\n")):
        with pytest.raises(Unreadable, match=r"(invalid|unsupported|incomplete) segment"):
            unpack_segment(data)


def test_a_segment_lacking_a_line_is_named() -> None:
    with pytest.raises(Unreadable, match="1 of 2 lines"):
        unpack_segment(pack_segment(header(2), [SegmentLine(0, 1, "x")]))


@pytest.mark.parametrize("declared", [True, False])
def test_a_segment_that_unpacks_to_more_than_its_header_names_is_refused_while_it_is_unpacked(declared: bool) -> None:
    text = msgspec.json.encode(header(1)) + b"\n" + b" " * 300_000_000
    if declared:
        bomb = compress(text)
        text = b""
        assert len(bomb) < 40_000
    else:  # a frame in pieces does not say how large it is
        compressor = import_module(
            "backports.zstd" if sys.version_info < (3, 14) else "compression.zstd"
        ).ZstdCompressor()
        bomb = compressor.compress(text) + compressor.flush()
        text = b""
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match=r"more than [0-9,]+ bytes"):
            unpack_segment(bomb)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_a_name_says_where_a_segment_belongs_and_what_it_follows() -> None:
    first = pack_segment(header(), [])
    second = header(sequence=2, previous=segment_digest(first))
    assert name_segment(header()) == f"segments/acme/d1/{STREAM}/0000000001-0000000000000000.jsonl.zst"
    assert parse_segment_name(name_segment(second)) == SegmentName("acme", "d1", STREAM, 2, segment_digest(first)[:16])
    assert format_segment_name(SegmentName("acme", "d1", STREAM, 2, segment_digest(first))) == name_segment(second)


@pytest.mark.parametrize("other", ["", "segments/acme/d1/x/1.jsonl.zst", f"segments/acme/d1/{STREAM}/0000000001.jsonl"])
def test_other_names_are_no_segments(other: str) -> None:
    assert parse_segment_name(other) is None


def device_header(parts: list[PartEntry]) -> DeviceSegmentHeader:
    return DeviceSegmentHeader(
        org="acme", user="me", device="d1", sequence=1, previous=FIRST, day=FIRST_DAY, next_day="2026-01-05",
        written="2026-01-05T00:00:00Z", parts=parts,
    )  # fmt: skip


@given(st.lists(st.lists(st.builds(SegmentLine, st.integers(0, 2**53), st.integers(0, 2**53), texts)), max_size=4))
def test_the_parts_of_a_device_come_out_as_they_went_in(made: list[list[SegmentLine]]) -> None:
    parts = [encode_part(header(len(lines), number), lines) for number, lines in enumerate(made, 1)]
    told = device_header([PartEntry(STREAM, number, len(text)) for number, text in enumerate(parts, 1)])
    found, inside = unpack_device_segment(pack_device_segment(told, parts))
    assert found == told
    assert [decode_part(part.text) for part in inside] == [
        (header(len(lines), number), lines) for number, lines in enumerate(made, 1)
    ]


@pytest.mark.parametrize("size", [-1, 0, 5, 2**70])
def test_a_device_segment_whose_parts_are_not_as_long_as_it_says_is_named(size: int) -> None:
    text = encode_part(header(1), [SegmentLine(0, 1, "x")])
    with pytest.raises(Unreadable, match="invalid segment"):
        unpack_device_segment(pack_device_segment(device_header([PartEntry(STREAM, 1, size)]), [text]))


@pytest.mark.parametrize("data", [b"", b"words", compress(b"words"), compress(b"{}\n"), compress(b"[" * 100_000)])
def test_what_is_not_a_device_segment_is_named(data: bytes) -> None:
    with pytest.raises(Unreadable, match=r"(invalid|unsupported) segment"):
        unpack_device_segment(data)


def test_a_device_segment_that_unpacks_to_more_than_it_says_is_refused_while_it_is_unpacked() -> None:
    bomb = pack_device_segment(device_header([PartEntry(STREAM, 1, 10)]), [b" " * 300_000_000])
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match="invalid segment"):
            unpack_device_segment(bomb)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
