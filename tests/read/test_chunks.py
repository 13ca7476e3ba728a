"""Whole lines, many at a time: all of a file, once, and no long line in memory twice."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.read.lines import ReadLimits, read_line_chunks

LONG = 4_000_000

texts = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"x")), max_size=12).map(b"\n".join)


@given(texts, st.integers(1, 20), st.integers(1, 40))
def test_a_file_comes_whole_and_in_order_and_ends_at_line_ends(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, piece: int, longest: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.jsonl"
    path.write_bytes(text)
    left_out: list[tuple[int, int]] = []
    pieces = [
        (lines.offset + lines.start, lines.data[lines.start : lines.end])
        for lines in read_line_chunks(path, ReadLimits(piece, longest), 0, left_out)
    ]
    reached = 0
    for offset, length in sorted([*((offset, len(data)) for offset, data in pieces), *left_out]):
        assert offset == reached
        assert length > 0
        reached += length
    assert reached == len(text)
    assert pieces == sorted(pieces)
    for offset, data in pieces:
        assert data == text[offset : offset + len(data)]
        assert data.endswith(b"\n") or offset + len(data) == len(text)
    for offset, length in left_out:
        assert length > longest
        assert b"\n" not in text[offset : offset + length - 1]


def test_a_long_line_is_held_once(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes((b"x" * LONG + b"\n") * 3)
    tracemalloc.start()
    seen = 0
    for lines in read_line_chunks(path, ReadLimits(piece=10_000)):
        seen += lines.end - lines.start
        del lines
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seen == 3 * (LONG + 1)
    assert most < 1.5 * LONG
