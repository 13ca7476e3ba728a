"""A file read once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.read.lines import ReadLimits
from unspool.read.tail import pieces, read_items
from unspool.testing.build import raw, session, user

BODIES = st.lists(st.sampled_from([b'{"type":"mode"}\n', b"\n", b'{"torn', b"[1]\n", b"x" * 50 + b"\n"]), max_size=8)


@given(BODIES, st.integers(1, 40))
def test_a_file_read_once_holds_what_its_pieces_hold(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], size: int
) -> None:
    path = session(user("hi"), *map(raw, lines)).save(tmp_path_factory.mktemp("items"))
    limits = ReadLimits(piece=size, line=40)
    together = [item for piece in pieces(path, final=True, limits=limits) for item in piece.items]
    assert list(read_items(path, limits=limits)) == together
