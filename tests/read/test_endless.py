"""Lines without an end and sparse files: what comes before is read, and the rest is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unspool.errors import Unreadable
from unspool.files import data_end, read_pieces
from unspool.format import BadLine, Entry, Item
from unspool.read import Kind, LineChunk, ReadLimits, pieces, read_items, read_line_chunks, scan, survey
from unspool.testing.build import session, user

GB = 1000**3
LINES = session(user("one"), user("two")).lines
TEXT = b"".join(LINES)
LIMITS = ReadLimits(piece=1000, line=5000, searched=20_000)


def spans(items: list[Item]) -> list[tuple[type, int, int]]:
    return [(type(item), item.offset, item.length) for item in items]


def write(path: Path, rest: bytes = b"", size: int | None = None) -> Path:
    path.write_bytes(TEXT + rest)
    if size is not None:
        os.truncate(path, size)
    return path


@pytest.mark.parametrize("rest", [b"x" * 50_000, b"x" * 50_000 + b"\n" + TEXT])
def test_a_line_without_an_end_is_one_bad_line_to_the_end_of_the_file(tmp_path: Path, rest: bytes) -> None:
    path = write(tmp_path / "a.jsonl", rest)
    items = list(read_items(path, limits=LIMITS))
    first = [(Entry, 0, len(LINES[0])), (Entry, len(LINES[0]), len(LINES[1]))]
    assert spans(items) == [*first, (BadLine, len(TEXT), len(rest))]
    assert [item for piece in pieces(path, final=True, limits=LIMITS) for item in piece.items] == items


def test_a_line_without_an_end_waits_in_a_file_that_is_not_final(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b"x" * 50_000)
    *_, last = pieces(path, limits=LIMITS)
    assert last.position.offset == len(TEXT)


def test_lines_before_one_without_an_end_come_before_the_error(tmp_path: Path) -> None:
    path, read = write(tmp_path / "a.jsonl", b"x" * 50_000), list[LineChunk]()
    with pytest.raises(Unreadable, match=f"read only up to byte {len(TEXT):,} of {len(TEXT) + 50_000:,}"):
        read.extend(read_line_chunks(path, LIMITS))
    assert b"".join(chunk.data[chunk.start : chunk.end] for chunk in read) == TEXT


def test_long_lines_within_the_limit_are_left_out_and_the_rest_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b"x" * 10_000 + b"\n" + TEXT)
    kinds = [type(item) for item in read_items(path, limits=LIMITS)]
    assert kinds == [Entry, Entry, BadLine, Entry, Entry]


def test_a_sparse_file_is_read_up_to_its_first_hole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", size=100 * GB)
    *entries, rest = read_items(path)
    assert [entry.length for entry in entries] == list(map(len, LINES))
    assert spans([rest]) == [(BadLine, len(TEXT), 100 * GB - len(TEXT))]
    with pytest.raises(Unreadable, match="sparse"):
        list(read_line_chunks(path))
    with pytest.raises(Unreadable, match="sparse"):
        list(read_pieces(path))


def test_a_hole_that_is_small_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", size=4_000_000)
    with path.open("ab") as file:
        file.write(b"\n" + TEXT)
    assert sum(isinstance(item, Entry) for item in read_items(path)) == 4
    assert b"".join(read_pieces(path)) == path.read_bytes()


def test_holes_of_any_size_end_the_reading_of_a_file_that_has_many(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl")
    with path.open("r+b") as file:
        for number in range(1, 40):
            file.seek(number * 64_000_000)
            file.write(b"\n" + TEXT)
    with path.open("rb") as file:
        assert data_end(file.fileno(), os.fstat(file.fileno())) < 1_000_000


def test_a_scan_names_sparse_files_and_still_has_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", size=100 * GB)
    for root in (tmp_path, path):
        tree = scan(root)
        assert [source.kind for source in tree.sources] == [Kind.SESSION]
        (skipped,) = tree.skipped
        assert skipped.path == path
        assert "sparse" in skipped.reason


def test_a_report_accounts_for_every_byte_of_a_sparse_file(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", size=100 * GB)
    report = survey(scan(tmp_path))
    assert report.bytes == report.accounted_bytes == 100 * GB
    assert [line.length for line in report.bad_lines] == [100 * GB - len(TEXT)]
