"""Bytes cut into pieces: nothing is left out, nothing comes twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.machine import Row, lines_of
from unspool.collect import segment_maker
from unspool.collect.segment_maker import redact_pieces, redact_whole
from unspool.redact.redactor import Redactor

REDACTOR = Redactor(b"k")


@given(st.lists(st.text("ab{}1 \n\r", max_size=9).map(str.encode)), st.integers(1, 30), st.integers(0, 99))
def test_where_reads_begin_and_end_does_not_matter(data: list[bytes], size: int, start: int) -> None:
    found = list(redact_pieces(REDACTOR, data, start, size))
    together = b"".join(data)
    assert [(piece.start, piece.end) for piece in found] == _joined([piece.end - piece.start for piece in found], start)
    assert sum(piece.end - piece.start for piece in found) == len(together)
    lines = [Row(line.offset - start, line.length, line.raw, line.bad) for piece in found for line in piece.lines]
    assert lines == lines_of(together)


def _joined(lengths: list[int], start: int) -> list[tuple[int, int]]:
    return [(start + sum(lengths[:n]), start + sum(lengths[: n + 1])) for n in range(len(lengths))]


def test_a_piece_is_as_long_as_asked_for_or_one_line() -> None:
    data = b"".join(b"%d\n" % number for number in range(1000)) + b"9" * 500 + b"\n1\n"
    found = list(redact_pieces(REDACTOR, [data], 0, 100))
    assert all(piece.end - piece.start <= 100 or len(piece.lines) == 1 for piece in found)


def test_a_line_too_long_to_hold_is_named_and_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_maker, "MAX_LINE", 50)
    data = [b"1\n" + b"x" * 40, b"y" * 40, b"z\n2\n", b"3\n", b"w" * 70]
    found = [line for piece in redact_pieces(REDACTOR, data, 0, 20) for line in piece.lines]
    assert [(line.offset, line.length) for line in found] == [(0, 1), (2, 81), (84, 1), (86, 1), (88, 70)]
    assert [line.raw[:20] for line in found if line.length > 1] == ['"[redacted:oversized'] * 2


def test_a_side_file_is_one_line() -> None:
    secret = "ghp_" + "a1" * 18
    data = f'{{\n  "token": "{secret}"\n}}\n'.encode()
    piece = redact_whole(REDACTOR, data)
    (line,) = piece.lines
    assert (line.offset, line.length, line.bad) == (0, len(data), False)
    assert secret not in line.raw
    assert piece.counts.total() == 1
